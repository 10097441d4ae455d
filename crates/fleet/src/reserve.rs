//! Reservations that follow from the size of each node: `spec.kubelet.reserve`.
//!
//! A formula gives the amount of a resource from the capacity of a node and the number of its pods. A preset is the
//! formula that a provider publishes, as a file in this format.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::fields::{At, Fields, Located, ReadField, choices, map};
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::document::{Document, Value};
use kubelet_config::finding::Finding;
use kubelet_config::values::quantity::Quantity;

/// Maximum number of tiers of a formula.
const MAX_TIERS: usize = 20;
/// Hundredths of a percent in the whole.
const WHOLE: u32 = 10_000;

map! {
    /// Reservations that follow from the size of each node. They are merged over kubelet.yaml, before the patches. The
    /// nodes of a pool then have one configuration for each size.
    #[name("ReserveSpec")]
    #[check(one_formula)]
    pub struct Reserve {
        /// Formula that a provider publishes for its nodes: gke, eks or aks. `nodecfg explain reserve` has their values
        /// and sources.
        "preset" => preset: Option<Preset>,
        /// Formulas for kubeReserved, instead of a preset.
        "kubeReserved" => kube_reserved: Option<Reserved>,
        /// Steps to which the capacities of nodes are rounded up. Larger steps make fewer sizes.
        "roundTo" => round_to: RoundTo,
    }
}

map! {
    /// A formula for each reserved resource.
    #[derive(Default)]
    #[name("ReservedSpec")]
    #[check(some_resource)]
    pub struct Reserved {
        /// CPU, in thousandths of a core, rounded down.
        "cpu" => cpu: Option<Formula>,
        /// Memory, in Mi, rounded down.
        "memory" => memory: Option<Formula>,
        /// Storage of the kubelet's file system, in Mi, rounded down.
        "ephemeral-storage" => ephemeral_storage: Option<Formula>,
    }
}

map! {
    /// Amount of a resource: the sum of base, of perPod for each pod that the node may have, and of the tiers.
    #[derive(Default)]
    #[name("ReserveFormula")]
    #[check(some_part)]
    pub struct Formula {
        /// Fixed amount.
        "base" => base: Option<Quantity>,
        /// Amount for each pod: maxPods of the configuration, or of the nodes' own, or 110. Less with podsPerCore.
        "perPod" => per_pod: Option<Quantity>,
        /// Shares of the capacity, from the first core or byte on.
        #[schema(json!({"maxItems": MAX_TIERS}))]
        #[check(in_order)]
        "tiers" => tiers: Vec<Located<Tier>>,
        /// Least amount.
        "atLeast" => at_least: Option<Quantity>,
        /// Largest amount: a quantity or a percentage of the capacity, or a list of which the smallest counts.
        "atMost" => at_most: Limits,
    }
}

map! {
    /// Share of a part of the capacity.
    #[name("ReserveTier")]
    pub struct Tier {
        /// Part of the capacity that the first tier covers, such as 1 (core) or 4Gi. Default: all of it.
        "first" => first: Option<Quantity>,
        /// Part of the capacity that a later tier covers, after those before. Default of the last tier: the rest.
        "next" => next: Option<Quantity>,
        /// Reserved percentage of the part, such as 6 or 0.25.
        #[required("percent: 1")]
        "percent" => percent: Share,
    }
}

map! {
    /// Steps to which the capacities of nodes are rounded up, or below a step to its half, its quarter and so on. CPU is
    /// counted in whole cores.
    #[name("RoundTo")]
    pub struct RoundTo: Default {
        /// Step of memory. Default {default}.
        #[default(Quantity::whole(1 << 30))]
        #[check(some_amount)]
        "memory" => memory: Quantity,
        /// Step of storage. Default {default}.
        #[default(Quantity::whole(10 << 30))]
        #[check(some_amount)]
        "ephemeral-storage" => ephemeral_storage: Quantity,
    }
}

/// A published formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Google Kubernetes Engine.
    Gke,
    /// Amazon Elastic Kubernetes Service.
    Eks,
    /// Azure Kubernetes Service.
    Aks,
}

choices! {
    Preset: "preset", Preset::ALL.map(|preset| (preset.as_str(), preset));
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::Gke, Self::Eks, Self::Aks];

    /// Name in a file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gke => "gke",
            Self::Eks => "eks",
            Self::Aks => "aks",
        }
    }

    /// The file with the formula. Its comments name the sources.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Gke => include_str!("../data/reserve/gke.yaml"),
            Self::Eks => include_str!("../data/reserve/eks.yaml"),
            Self::Aks => include_str!("../data/reserve/aks.yaml"),
        }
    }

    /// The formula.
    #[must_use]
    pub fn reserved(self) -> &'static Reserved {
        static ALL: LazyLock<[Reserved; 3]> = LazyLock::new(|| {
            Preset::ALL.map(|preset| {
                let mut findings = Vec::new();
                let document = Document::parse(preset.as_str(), preset.text()).document;
                let mut read = |node| Reserved::read(&mut At { node, path: "", findings: &mut findings });
                // A test reads each file without findings.
                document.as_ref().and_then(|document| read(&document.root)).unwrap_or_default()
            })
        });
        let [gke, eks, aks] = &*ALL;
        match self {
            Self::Gke => gke,
            Self::Eks => eks,
            Self::Aks => aks,
        }
    }
}

/// What a formula needs to know of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pods {
    /// `maxPods`.
    pub most: u32,
    /// `podsPerCore`; 0: no limit.
    pub per_core: u32,
}

impl Pods {
    /// The kubelet's defaults.
    pub const DEFAULT: Self = Self { most: 110, per_core: 0 };

    /// The pods that a kubelet admits on a node with this CPU.
    fn on(self, capacity: Capacity) -> u64 {
        let cores = capacity.of(Resource::Cpu).map(|cpu| cpu / 1000).filter(|_| self.per_core > 0);
        let by_cores = cores.map_or(u64::MAX, |cores| cores.saturating_mul(self.per_core.into()));
        by_cores.min(self.most.into())
    }
}

impl Reserve {
    /// The formulas.
    #[must_use]
    pub fn reserved(&self) -> &Reserved {
        static NONE: Reserved = Reserved { cpu: None, memory: None, ephemeral_storage: None };
        match (self.preset, &self.kube_reserved) {
            (Some(preset), _) => preset.reserved(),
            (None, Some(reserved)) => reserved,
            // Reported when the file was read.
            (None, None) => &NONE,
        }
    }

    /// Steps of the resources on which the amounts depend.
    #[must_use]
    pub fn steps(&self, pods: Pods) -> Capacity {
        let step = |resource| match resource {
            Resource::Cpu => 1000,
            Resource::Memory => units(self.round_to.memory, resource),
            Resource::EphemeralStorage => units(self.round_to.ephemeral_storage, resource),
        };
        let depends = |resource: Resource| {
            let counts_cores = resource == Resource::Cpu && pods.per_core > 0;
            self.reserved().formulas().any(|(of, formula)| {
                (of == resource && formula.depends_on_capacity()) || (counts_cores && formula.per_pod.is_some())
            })
        };
        let resources = Resource::ALL.into_iter().filter(|resource| depends(*resource));
        resources.fold(Capacity::default(), |steps, resource| steps.with(resource, step(resource)))
    }
}

impl fmt::Display for Reserve {
    /// Writes the formulas: `cpu: 6% of the first 1, …; memory: 255Mi + 11Mi for each pod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formulas = self.reserved().formulas();
        let texts: Vec<String> =
            formulas.map(|(resource, formula)| format!("{}: {formula}", resource.as_str())).collect();
        f.write_str(&texts.join("; "))
    }
}

impl Reserved {
    /// The formulas by resource.
    pub fn formulas(&self) -> impl Iterator<Item = (Resource, &Formula)> {
        let formula = |resource| match resource {
            Resource::Cpu => self.cpu.as_ref(),
            Resource::Memory => self.memory.as_ref(),
            Resource::EphemeralStorage => self.ephemeral_storage.as_ref(),
        };
        Resource::ALL.into_iter().filter_map(move |resource| Some((resource, formula(resource)?)))
    }

    /// The amounts for a node, as quantities. A formula that depends on an unknown capacity has none.
    pub fn amounts(&self, capacity: Capacity, pods: Pods) -> impl Iterator<Item = (Resource, String)> {
        self.formulas().filter_map(move |(resource, formula)| {
            let amount = formula.amount(resource, capacity, pods)?;
            Some((resource, resource.amount_text(amount)))
        })
    }
}

impl Formula {
    fn depends_on_capacity(&self) -> bool {
        !self.tiers.is_empty() || self.at_most.0.iter().any(|limit| matches!(limit, Limit::Share(_)))
    }

    /// Reserved amount: thousandths of a core, or bytes in whole Mi. `None` if it depends on an unknown capacity.
    fn amount(&self, resource: Resource, capacity: Capacity, pods: Pods) -> Option<u64> {
        let fixed = |amount: Option<Quantity>| u128::from(amount.map_or(0, |amount| units(amount, resource)));
        let whole = match capacity.of(resource) {
            Some(amount) => u128::from(amount),
            None if self.depends_on_capacity() => return None,
            None => 0,
        };
        let mut left = whole;
        // In hundredths of a percent of the unit, so that only the sum is rounded.
        let mut sum = (fixed(self.base) + fixed(self.per_pod) * u128::from(pods.on(capacity))) * u128::from(WHOLE);
        for Located { value: Tier { first, next, percent }, .. } in &self.tiers {
            let part = first.or(*next).map_or(left, |width| left.min(units(width, resource).into()));
            left -= part;
            sum += percent.of(part);
        }
        sum = sum.max(fixed(self.at_least) * u128::from(WHOLE));
        for limit in &self.at_most.0 {
            sum = sum.min(match limit {
                Limit::Amount(amount) => u128::from(units(*amount, resource)) * u128::from(WHOLE),
                Limit::Share(share) => share.of(whole),
            });
        }
        let unit: u128 = if resource == Resource::Cpu { 1 } else { 1 << 20 };
        let whole_units = sum / (u128::from(WHOLE) * unit);
        // More than any machine has is refused for each node.
        Some(u64::try_from(whole_units * unit).unwrap_or(u64::MAX / (1 << 20) * (1 << 20)))
    }
}

impl fmt::Display for Formula {
    /// Writes `255Mi + 11Mi for each pod`, `6% of the first 1, 1% of the next 1, 0.25% of the rest`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.base.map(shown).into_iter().collect();
        parts.extend(self.per_pod.map(|amount| format!("{} for each pod", shown(amount))));
        let tier =
            |(at, Located { value: Tier { first, next, percent }, .. }): (usize, &Located<Tier>)| match (first, next) {
                (Some(width), _) => format!("{percent} of the first {}", shown(*width)),
                (None, Some(width)) => format!("{percent} of the next {}", shown(*width)),
                (None, None) if at == 0 => format!("{percent} of the capacity"),
                (None, None) => format!("{percent} of the rest"),
            };
        let tiers: Vec<String> = self.tiers.iter().enumerate().map(tier).collect();
        parts.extend(Some(tiers.join(", ")).filter(|tiers| !tiers.is_empty()));
        f.write_str(&parts.join(" + "))?;
        if let Some(least) = self.at_least {
            write!(f, ", at least {}", shown(least))?;
        }
        for limit in &self.at_most.0 {
            write!(f, ", at most {limit}")?;
        }
        Ok(())
    }
}

/// A quantity with the largest unit of which it is a multiple: `255Mi`, `60m`, `2`.
fn shown(amount: Quantity) -> String {
    let thousandths = amount.rounded_up_thousandths();
    match u64::try_from(amount.rounded_up()) {
        _ if thousandths % 1000 != 0 => format!("{thousandths}m"),
        Ok(whole) => Resource::Memory.amount_text(whole),
        Err(_) => amount.to_string(),
    }
}

/// Thousandths of a core, or bytes.
fn units(amount: Quantity, resource: Resource) -> u64 {
    let units = match resource {
        Resource::Cpu => amount.rounded_up_thousandths(),
        Resource::Memory | Resource::EphemeralStorage => amount.rounded_up(),
    };
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Share of a capacity, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let valid = digits(whole) && digits(fraction) && whole.len() <= 3 && fraction.len() <= 2;
        let hundredths = format!("{whole}{fraction:0<2}").parse().ok().filter(|share| valid && *share <= WHOLE)?;
        Some(Self(hundredths))
    }

    /// The share of an amount, in ten-thousandths.
    fn of(self, amount: u128) -> u128 {
        amount * u128::from(self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, fraction) => write!(f, "{whole}.{}%", format!("{fraction:02}").trim_end_matches('0')),
        }
    }
}

/// Upper limits of an amount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits(Vec<Limit>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Amount(Quantity),
    Share(Share),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(amount) => f.write_str(&shown(*amount)),
            Self::Share(share) => share.fmt(f),
        }
    }
}

/// Text of a scalar that may be written as a number.
fn number_text<'n>(at: &mut At<'n>, expected: &str) -> Option<&'n str> {
    match &at.node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        _ => {
            at.wrong_type(expected);
            None
        }
    }
}

impl ReadField for Quantity {
    type Schema = QuantitySchema;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let text = number_text(at, "a quantity")?;
        let amount = Self::parse(text).ok().filter(|amount| !amount.is_negative());
        if amount.is_none() {
            at.refuse(&format!("{text:?} is not a quantity"), "write an amount such as 500m, 2, 100Mi or 1Gi");
        }
        amount
    }

    fn notation(&self) -> String {
        shown(*self)
    }
}

/// Schema of a quantity.
pub enum QuantitySchema {}

impl JsonSchema for QuantitySchema {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "minimum": 0,
            "description": "A quantity of Kubernetes, such as 500m, 2, 100Mi or 1Gi.",
        })
    }
}

impl ReadField for Share {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let text = number_text(at, "a number")?;
        let share = Self::parse(text);
        if share.is_none() {
            at.refuse(&format!("{text:?} is not a percentage"), "write a number from 0 to 100, such as 6 or 0.25");
        }
        share
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.01})
    }
}

impl ReadField for Limit {
    type Schema = QuantitySchema;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let share = at.node.text().and_then(|text| text.strip_suffix('%')).map(Share::parse);
        match share {
            Some(Some(share)) => Some(Self::Share(share)),
            Some(None) => {
                at.refuse("it is not a percentage", "write a percentage from 0% to 100%, or a quantity such as 100Gi");
                None
            }
            None => Quantity::read(at).map(Self::Amount),
        }
    }
}

impl ReadField for Limits {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        Some(Self(match at.node.sequence() {
            Some(_) => at.items(Limit::read),
            None => Limit::read(at).into_iter().collect(),
        }))
    }
}

impl JsonSchema for Limits {
    fn schema_name() -> Cow<'static, str> {
        "ReserveLimits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json!({"type": ["string", "number"]});
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

fn one_formula(reserve: Option<Reserve>, fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Reserve> {
    match (fields.get("preset"), fields.get("kubeReserved")) {
        (None, None) => {
            findings.push(fields.missing("preset", "preset: gke, eks or aks, or a formula in kubeReserved"))
        }
        (Some(_), Some(formulas)) => {
            let path = fields.path("kubeReserved");
            let at = &mut At { node: formulas, path: &path, findings };
            at.refuse("a preset has the formulas already", "remove it, or write all formulas instead of the preset");
        }
        _ => {}
    }
    reserve
}

fn some_resource(reserved: Option<Reserved>, fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Reserved> {
    if !Resource::ALL.into_iter().any(|resource| fields.get(resource.as_str()).is_some()) {
        findings.push(fields.missing("memory", "a formula of cpu, memory or ephemeral-storage"));
    }
    reserved
}

fn some_part(formula: Option<Formula>, fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Formula> {
    if !["base", "perPod", "tiers", "atLeast"].into_iter().any(|part| fields.get(part).is_some()) {
        findings.push(fields.missing("base", "base, perPod or tiers"));
    }
    formula
}

fn in_order(tiers: Vec<Located<Tier>>, at: &mut At<'_>) -> Option<Vec<Located<Tier>>> {
    if tiers.len() > MAX_TIERS {
        at.refuse(&format!("{} tiers, at most {MAX_TIERS} are allowed", tiers.len()), "combine tiers");
    }
    let last = tiers.len().saturating_sub(1);
    for (number, Located { value: Tier { first, next, .. }, .. }) in tiers.iter().enumerate() {
        let (problem, help) = match (number, first, next) {
            (0, _, Some(_)) => ("the first tier has `next`", "write `first` in it"),
            (1.., Some(_), _) => ("only the first tier has `first`", "write `next` in it"),
            (_, None, None) if number < last => ("only the last tier covers the rest", "write `next` in it"),
            _ => continue,
        };
        let (path, node) = (format!("{}[{number}]", at.path), at.node.sequence().and_then(|items| items.get(number)));
        if let Some(node) = node {
            At { node, path: &path, findings: at.findings }.refuse(problem, help);
        }
    }
    Some(tiers)
}

fn some_amount(amount: Quantity, at: &mut At<'_>) -> Option<Quantity> {
    if amount.is_zero() {
        at.refuse("it must be greater than 0", "remove it, or write a step such as 1Gi");
    }
    Some(amount)
}

#[cfg(test)]
#[path = "reserve_tests.rs"]
mod tests;
