//! What a kubelet runs: the values of its file, of its drop-ins, of its flags and its defaults, each with its origin.
//!
//! - [`effective`] takes a version, the text of `--config`, the folder of `--config-dir` and the command line, and
//!   returns all values of the running kubelet, or the [`Refused`] reason why it stops. It follows the kubelet of that
//!   version: files that are read and their order (`folder.rs`), strictness and merge of drop-ins (`merge.rs`), defaults
//!   ([`crate::defaults`]), flags (`flags.rs`) and validation ([`crate::verdict`]).
//! - [`overlaid`] merges a configuration over the text of another one. The kubelet reads the result as one file, so it
//!   sets its defaults afterwards. A kubelet that merges a drop-in sets defaults before the merge.
//! - [`overridden`] returns the values of a configuration that something later sets.
//! - [`changes`] returns the changes between two configurations of one file.
//!
//! A value has the form in which the kubelet prints it in `/configz`: durations in Go's form, no empty lists and maps,
//! and no zero values of fields that are no Go pointers.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;

use crate::Minor;
use crate::document::{Document, Node, apply_merge_patch};
use crate::finding::{Finding, Place};
use crate::verdict::{self, HostCondition, Refusal, Stage};

mod changes;
#[cfg(test)]
mod field_cases;
mod flag_values;
mod flags;
pub mod folder;
mod merge;
mod overridden;
#[cfg(test)]
mod placements;
mod printed;
#[cfg(test)]
mod recorded;
mod traced;

pub use changes::{EffectiveChange, ValueChange, changes};
pub use flags::{flag_of, paths as flag_paths};
pub use folder::{ConfigDir, FolderEntry, is_read};
pub use overridden::{Overridden, SetAbove, is_same_value, named, named_values, overridden, set_above};

/// The file of a default in a [`Place`].
const DEFAULT: &str = "";

/// A kubelet before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Kubelet<'k> {
    /// The version.
    pub minor: Minor,
    /// The file of `--config`. `None` without the flag: the defaults of the flags apply.
    pub config: Option<ConfigFile<'k>>,
    /// The folder of `--config-dir`. `None` without the flag.
    pub config_dir: Option<&'k ConfigDir>,
    /// Whether the kubelet's environment has `KUBELET_CONFIG_DROPIN_DIR_ALPHA`, which kubelets 1.28 and 1.29 require
    /// for `--config-dir`.
    pub drop_in_alpha: bool,
    /// The arguments of the command line. `--config` and `--config-dir` among them are ignored: see [`flag_paths`].
    pub flags: &'k [String],
}

/// A file of `--config`.
#[derive(Debug, Clone, Copy)]
pub struct ConfigFile<'k> {
    /// The path. Relative paths in the file start at its folder if it is absolute.
    pub path: &'k str,
    /// The text.
    pub text: &'k str,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The kubelet sets it.
    Default,
    /// The file of `--config`.
    Config,
    /// A drop-in, with its path.
    DropIn(String),
    /// A flag, with its name: `--max-pods`.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Config => "--config",
            Self::DropIn(path) => path,
            Self::Flag(flag) => flag,
        })
    }
}

/// The configuration of a running kubelet.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The values by path. A dot separates keys, in maps with free keys too (`evictionHard.memory.available`). A list is
    /// one value. A secret is masked as the kubelet does.
    pub values: BTreeMap<String, EffectiveValue>,
    /// The whole configuration with all defaults written out. The place of a value names its file, the flag, or no file
    /// for a default. It contains secrets.
    pub document: Document,
    /// The reasons why the kubelet accepts the configuration and fails to start.
    pub startup: Vec<Refusal>,
    /// Conditions that depend on the host, also those of defaults.
    pub host_conditions: Vec<HostCondition>,
}

/// A value of a running kubelet.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveValue {
    /// The value as the kubelet prints it.
    pub value: Json,
    /// Its origin.
    pub by: Origin,
}

/// The reason why a kubelet stops before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The stage: [`Stage::Load`] also for flags and for files that cannot be read.
    pub stage: Stage,
    /// The file or flag that causes it, as far as known.
    pub by: Option<Origin>,
    /// One sentence.
    pub message: String,
    /// The rules that refuse it. Empty if the kubelet stops for another reason.
    pub refusals: Vec<Refusal>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(by) if *by != Origin::Default => write!(f, "{by}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl Refused {
    fn new(by: Origin, message: impl Into<String>) -> Self {
        Self { stage: Stage::Load, by: Some(by), message: message.into(), refusals: Vec::new() }
    }

    /// `origins`: the origins of the files in places.
    fn by_rules(stage: Stage, refusals: Vec<Refusal>, origins: &Origins, document: &Document) -> Self {
        let first = refusals.first();
        let message = first.map(Refusal::sentence);
        let by = first.map(|first| match origins.of(&first.place) {
            Origin::Default => cause(first, origins, document),
            by => by,
        });
        Self { stage, by, message: message.unwrap_or_default(), refusals }
    }
}

/// The origin of the first field that a rule reads and that is no default.
fn cause(refusal: &Refusal, origins: &Origins, document: &Document) -> Origin {
    let related = refusal.related.iter().map(|(place, _)| origins.of(place));
    let fields = verdict::rules::lookup(refusal.rule).map_or(&[][..], |rule| &rule.fields);
    let field = |path: &String| document.root.at(path).map(|node| origins.of(&node.place));
    related.chain(fields.iter().filter_map(field)).find(|by| *by != Origin::Default).unwrap_or(Origin::Default)
}

/// The origin of each file name in places.
#[derive(Debug, Default)]
struct Origins(BTreeMap<String, Origin>);

impl Origins {
    fn add(&mut self, file: &str, origin: Origin) {
        self.0.entry(file.to_owned()).or_insert(origin);
    }

    fn of(&self, place: &Place) -> Origin {
        self.0.get(&*place.file).cloned().unwrap_or(Origin::Default)
    }
}

/// Returns the configuration that a kubelet runs.
///
/// # Errors
/// The kubelet refuses its flags, one of its files, or the values. It may still fail to start with values that it
/// accepts: [`Effective::startup`].
pub fn effective(kubelet: &Kubelet<'_>) -> Result<Effective, Refused> {
    let minor = kubelet.minor;
    let flags = flags::parse(kubelet.flags, minor)?;
    let mut origins = Origins::default();
    for flag in &flags {
        origins.add(&flag.origin(), Origin::Flag(flag.origin()));
    }
    let of_flags = Document { root: flags::over(Node::empty_mapping(Place::whole_file(DEFAULT)), &flags), ..empty() };
    check_gates(&of_flags, minor, &origins)?;
    let mut root = match &kubelet.config {
        Some(file) => {
            origins.add(file.path, Origin::Config);
            load(file.path, file.text, minor, &of_flags, &origins, Origin::Config)?
        }
        None => merge::without_config(minor),
    };
    if let Some(folder) = kubelet.config_dir {
        check_folder(folder, kubelet)?;
        let files = folder::files(folder)?;
        for file in &files {
            origins.add(&file.path, Origin::DropIn(file.path.clone()));
        }
        root = merge::drop_ins(root, files, minor, &of_flags, &origins)?;
    }
    let root = flags::over(root, &flags);
    let document = Document { root: traced::explicit(root, minor), ..empty() };
    let answer = verdict::assess_explicit(&document, minor);
    if !answer.accepted() {
        return Err(Refused::by_rules(answer.stage, answer.refusals, &origins, &document));
    }
    let values = printed::values(&document.root, minor, &origins);
    Ok(Effective { values, document, startup: answer.startup, host_conditions: answer.host_conditions })
}

/// Merges a configuration over another one, as RFC 7386 defines it: maps merge key by key, other values replace, and
/// null removes. Each value keeps its place, and thus the file that set it.
#[must_use]
pub fn overlaid(own: Option<&Document>, overlay: &Document) -> Document {
    let root = apply_merge_patch(own.map(|own| own.root.clone()), &overlay.root);
    Document { root, ..overlay.clone() }
}

fn empty() -> Document {
    Document { root: Node::empty_mapping(Place::whole_file(DEFAULT)), syntax: crate::document::Syntax::Yaml }
}

/// The first version with `--config-dir`, and the first that needs no variable for it.
const CONFIG_DIR: Minor = Minor(28);
const CONFIG_DIR_BETA: Minor = Minor(30);

fn check_folder(folder: &ConfigDir, kubelet: &Kubelet<'_>) -> Result<(), Refused> {
    let flag = Origin::Flag("--config-dir".to_owned());
    if kubelet.minor < CONFIG_DIR {
        return Err(Refused::new(flag, format!("kubelet {} has no flag --config-dir", kubelet.minor)));
    }
    if kubelet.minor < CONFIG_DIR_BETA && !kubelet.drop_in_alpha {
        let message = format!(
            "kubelet {} refuses --config-dir unless its environment has KUBELET_CONFIG_DROPIN_DIR_ALPHA",
            kubelet.minor
        );
        return Err(Refused::new(flag, message));
    }
    match &folder.root {
        Some(_) => Ok(()),
        None => Err(Refused::new(flag, format!("the folder {} does not exist", folder.path))),
    }
}

/// Loads a file as that of `--config`: with unknown fields dropped, and with all defaults.
fn load(
    path: &str,
    text: &str,
    minor: Minor,
    of_flags: &Document,
    origins: &Origins,
    by: Origin,
) -> Result<Node, Refused> {
    let (document, _) = parse(path, text, &by)?;
    let refusals = verdict::load_refusals(&document, minor);
    if !refusals.is_empty() {
        return Err(Refused::by_rules(Stage::Load, refusals, origins, &document));
    }
    // Since 1.32 setting defaults applies the gates, over those of the flags.
    if minor >= merge::DEFAULTS_APPLY_GATES {
        check_gates(&overlaid(Some(of_flags), &document), minor, origins)?;
    }
    let given = traced::decoded(&document.root, "", minor, traced::Names::Exact);
    let root = traced::with_defaults(&given, minor, &of_flags.root, traced::Eviction::Filled);
    Ok(traced::absolute_paths(root, path, minor))
}

fn parse(path: &str, text: &str, by: &Origin) -> Result<(Document, Vec<Finding>), Refused> {
    let mut parsed = Document::parse(path, text);
    match parsed.document {
        Some(document) => Ok((document, parsed.findings)),
        None => {
            let reason = parsed.findings.pop();
            Err(Refused::new(by.clone(), reason.map_or_else(|| "it is empty".to_owned(), |finding| finding.message)))
        }
    }
}

fn check_gates(document: &Document, minor: Minor, origins: &Origins) -> Result<(), Refused> {
    let refusals = verdict::gate_refusals(document, minor);
    if refusals.is_empty() {
        return Ok(());
    }
    Err(Refused::by_rules(Stage::Gates, refusals, origins, document))
}
