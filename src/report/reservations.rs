//! Report of `explain reserve`: the published formulas, and what they reserve on typical machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::document::{Block, Cell, Conclusion, Item, Report, Section, Table, Text};
use crate::status::Grade;
use kubelet_config::capacity::{Capacity, Resource};
use nodecfg_contract::json_document::Kind;
use nodecfg_fleet::{Pods, Preset, typical_sizes};

/// The published formulas of `spec.kubelet.reserve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservations {
    /// The number of pods that the amounts count.
    pub max_pods: u32,
    /// The presets.
    pub presets: Vec<PresetReservations>,
}

impl Kind for Reservations {
    const KIND: &'static str = "Reservations";
}

/// One published formula.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PresetReservations {
    /// The name in `pool.yaml`.
    pub name: &'static str,
    /// The source, and what differs from it.
    pub remarks: Vec<String>,
    /// The formulas in words, by resource.
    pub formulas: BTreeMap<Resource, String>,
    /// The amounts for typical machines.
    pub sizes: Vec<SizeReservations>,
}

/// What a machine reserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizeReservations {
    /// The capacity of the machine.
    pub size: String,
    /// The amounts, by resource.
    pub reserved: BTreeMap<Resource, String>,
}

impl Reservations {
    /// The formulas of this version of nodecfg.
    #[must_use]
    pub fn published() -> Self {
        Self { max_pods: Pods::DEFAULT.most, presets: Preset::ALL.into_iter().map(preset).collect() }
    }
}

fn preset(preset: Preset) -> PresetReservations {
    let reserved = preset.reserved();
    let of_size = |size: Capacity| SizeReservations {
        size: size.to_string(),
        reserved: reserved.amounts(size, Pods::DEFAULT).collect(),
    };
    PresetReservations {
        name: preset.as_str(),
        remarks: paragraphs(preset.text()),
        formulas: reserved.formulas().map(|(resource, formula)| (resource, formula.to_string())).collect(),
        sizes: typical_sizes().map(of_size).collect(),
    }
}

/// The paragraphs of the comment at the start of a file. An item of a list, and an address, is one of its own.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim) {
        let begins = line.starts_with("- ") || line.starts_with("https://");
        match paragraphs.last_mut() {
            Some(last) if goes_on && !begins => *last = format!("{last} {line}"),
            _ if line.is_empty() => {}
            _ => paragraphs.push(line.trim_start_matches("- ").to_owned()),
        }
        goes_on = !line.is_empty() && !line.starts_with("https://");
    }
    paragraphs
}

/// A section for each preset: source, formulas and a table of typical machines.
#[must_use]
pub fn report(reservations: &Reservations) -> Report {
    let section = |preset: &PresetReservations| {
        let mut blocks: Vec<Block> = Vec::new();
        blocks.extend(preset.remarks.iter().map(|remark| Item::quiet(remark.clone()).into()));
        let formula =
            |(resource, formula): (&Resource, &String)| Item::new(format!("{}: {formula}", resource.as_str())).into();
        blocks.extend(preset.formulas.iter().map(formula));
        blocks.push(Block::Table(table(preset)));
        Block::Section(Section { title: Text::name(format!("preset: {}", preset.name)), blocks, ..Section::default() })
    };
    let text = format!(
        "spec.kubelet.reserve in pool.yaml computes kubeReserved from the size of each node, here for {} pods.",
        reservations.max_pods
    );
    Report {
        command: "explain",
        lead: Some(Conclusion::sentence(Grade::Neutral, text)),
        blocks: reservations.presets.iter().map(section).collect(),
        complete: true,
        ..Report::default()
    }
}

fn table(preset: &PresetReservations) -> Table {
    let row = |size: &SizeReservations| {
        let amounts = size.reserved.values().map(|amount| Cell::Words(amount.clone()));
        [Cell::Words(size.size.clone())].into_iter().chain(amounts).collect()
    };
    Table {
        caption: "Reservations of typical machines".to_owned(),
        columns: ["size"].into_iter().chain(preset.formulas.keys().map(|resource| resource.as_str())).collect(),
        rows: preset.sizes.iter().map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_paragraphs() {
        let text = "# One\n# line.\n# https://example.com/a\n#\n# Three differences:\n# - first,\n#   more\n# - second\ncpu: {}\n";
        assert_eq!(
            paragraphs(text),
            ["One line.", "https://example.com/a", "Three differences:", "first, more", "second"]
        );
    }

    #[test]
    fn each_preset_has_an_address_and_all_amounts() {
        for preset in Reservations::published().presets {
            assert!(preset.remarks.iter().any(|remark| remark.starts_with("https://")), "{}", preset.name);
            assert!(preset.sizes.iter().all(|size| size.reserved.len() == preset.formulas.len()), "{}", preset.name);
        }
    }
}
