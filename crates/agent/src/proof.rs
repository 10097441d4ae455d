//! The proof that the kubelet runs the reviewed values: they are compared with what it runs according to its files and the
//! command line of its process. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::host::process::{KubeletProcess, ProcessProblem};
use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::effective::{
    self, ConfigDir, ConfigFile, Effective, FolderEntry, Kubelet, Origin, Overridden, SetAbove,
};
use kubelet_config::fields::secrets;
use nodecfg_contract::kubelet_values::{OverriddenValue, OwnValue, SetValue};
use nodecfg_contract::nodeconfig::EffectiveStatus;
use nodecfg_contract::printable::at_most;
use nodecfg_contract::{ContentHash, KubeletVersion};

/// The start of a process is known up to some seconds.
const MARGIN: i64 = 2;

/// Reason why it is unknown whether the kubelet runs the reviewed values, as it may be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// The command line is unknown.
    #[error(transparent)]
    Process(#[from] ProcessProblem),
    /// The version of the kubelet is unknown, or nodecfg's tables lack it.
    #[error("the rules of the kubelet's version are unknown")]
    Version,
    /// The kubelet does not read what the agent writes.
    #[error("the kubelet was started without {flag} {path}, where the agent places configurations")]
    OtherPath {
        /// The flag of the kubelet.
        flag: &'static str,
        /// Path that the agent writes.
        path: String,
    },
    /// The file that the agent placed has another content now.
    #[error("another program has changed or removed the file that the agent placed for the kubelet")]
    NotInPlace,
    /// A file has changed since the kubelet started.
    #[error(
        "a file of the kubelet has changed since the kubelet started: what it runs is known after its next restart"
    )]
    NotRestarted,
    /// The agent cannot read a file that the kubelet reads.
    #[error("the agent cannot read every file of the kubelet's --config and --config-dir")]
    Unreadable,
    /// By the rules of its version, the kubelet would not start with its files and flags.
    #[error("by the rules of its version, the kubelet would refuse its files and flags")]
    Refused,
}

impl Unproven {
    /// Reason of the condition Effective.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Process(_) => "CommandLineUnknown",
            Self::Version => "VersionUnknown",
            Self::OtherPath { .. } => "OtherPath",
            Self::NotInPlace => "NotInPlace",
            Self::NotRestarted => "NotRestarted",
            Self::Unreadable => "FilesUnreadable",
            Self::Refused => "FilesRefused",
        }
    }
}

/// What a kubelet reads.
#[derive(Debug)]
pub struct KubeletFiles {
    /// Path and text of the file of `--config`.
    pub config: Option<(String, String)>,
    /// Folder of `--config-dir`.
    pub config_dir: Option<ConfigDir>,
    /// Time of the last change of these files, as far as known.
    pub changed_at: Option<Timestamp>,
    /// Name of the agent's file in that folder. `None` if the agent writes the file of `--config`.
    pub drop_in: Option<&'static str>,
}

impl KubeletFiles {
    /// Reports whether a kubelet that started at this time, in Unix seconds, may have read other files.
    fn are_newer(&self, started: i64) -> bool {
        self.changed_at.is_some_and(|at| at.as_second() > started.saturating_add(MARGIN))
    }

    /// Paths of the files that the kubelet reads.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let config = self.config.iter().map(|(path, _)| path.clone());
        let drop_ins = self.config_dir.iter().flat_map(|folder| effective::folder::files(folder).unwrap_or_default());
        config.chain(drop_ins.map(|file| file.path)).collect()
    }

    /// What a kubelet with these files runs.
    fn run(&self, config_dir: Option<&ConfigDir>, minor: Minor, flags: &[String]) -> Result<Effective, Unproven> {
        let config = self.config.as_ref().map(|(path, text)| ConfigFile { path, text });
        // The running kubelet has what it requires for its folder.
        effective::effective(&Kubelet { minor, config, config_dir, drop_in_alpha: true, flags })
            .map_err(|_| Unproven::Refused)
    }

    /// The file with the configuration, as the origin of values.
    fn ours(&self) -> Origin {
        match self.drop_in.zip(self.config_dir.as_ref()) {
            Some((name, folder)) => Origin::DropIn(effective::folder::path_in(folder, name)),
            None => Origin::Config,
        }
    }

    /// The folder without the files that the kubelet reads after the agent's.
    fn up_to_the_drop_in(&self) -> Option<ConfigDir> {
        let (mut folder, drop_in) = (self.config_dir.clone()?, self.drop_in?);
        let root = match folder.root.as_mut()? {
            FolderEntry::Link(Some(end)) => &mut **end,
            root => root,
        };
        if let FolderEntry::Folder(entries) = root {
            entries.retain(|name, _| name.as_str() <= drop_in);
        }
        Some(folder)
    }
}

/// Version by whose rules the kubelet reads its files.
///
/// # Errors
/// [`Unproven::Version`].
pub fn version(kubelet: Option<KubeletVersion>) -> Result<Minor, Unproven> {
    let known = kubelet.filter(|version| version.major == 1).map(|version| Minor(version.minor));
    known.filter(|minor| minor.is_known()).ok_or(Unproven::Version)
}

/// Paths of `--config` and `--config-dir` of a running kubelet.
///
/// # Errors
/// [`Unproven::Refused`].
pub fn paths(process: &KubeletProcess, minor: Minor) -> Result<[Option<String>; 2], Unproven> {
    effective::flag_paths(&process.arguments, minor).map_err(|_| Unproven::Refused)
}

/// Compares a reviewed configuration with what the kubelet runs. Without one, only lists what is set after its place.
///
/// # Errors
/// Reason why that is unknown.
pub fn compare(
    reviewed: Option<&str>,
    files: &KubeletFiles,
    process: &KubeletProcess,
    minor: Minor,
) -> Result<EffectiveStatus, Unproven> {
    if files.are_newer(process.started) {
        return Err(Unproven::NotRestarted);
    }
    let running = files.run(files.config_dir.as_ref(), minor, &process.arguments)?;
    let alone = files.run(files.up_to_the_drop_in().as_ref(), minor, &[])?;
    let mut status =
        EffectiveStatus { source: Some(EffectiveStatus::COMPUTED.to_owned()), ..EffectiveStatus::default() };
    if let Some(reviewed) = reviewed {
        let reviewed = Document::parse("reviewed", reviewed).document.ok_or(Unproven::Refused)?;
        let overridden = effective::overridden(&reviewed, &files.ours(), &alone, &running, minor);
        status.overridden = spread(overridden.into_iter().map(published).collect());
        status.overridden_more = shorten(&mut status.overridden, EffectiveStatus::MAX_OVERRIDDEN);
    }
    let above = effective::set_above(&alone, &running);
    let (secret, above): (Vec<SetAbove>, Vec<SetAbove>) = above.into_iter().partition(is_unpublished);
    status.above = above
        .into_iter()
        .map(|set| SetValue { field: set.path, value: set.value.to_string(), by: set.by.to_string() })
        .collect();
    status.above_more = shorten(&mut status.above, EffectiveStatus::MAX_ABOVE).saturating_add(number(secret.len()));
    let values: serde_json::Map<String, serde_json::Value> =
        running.values.into_iter().map(|(path, found)| (path, found.value)).collect();
    status.hash = Some(ContentHash::of(serde_json::Value::Object(values).to_string().as_bytes()).to_string());
    Ok(status)
}

/// Puts one value of each field first, so that a short list names every field.
fn spread(values: Vec<OverriddenValue>) -> Vec<OverriddenValue> {
    let mut seen = BTreeSet::new();
    let is_first = |value: &OverriddenValue| seen.insert(value.field.split('.').next().unwrap_or_default().to_owned());
    let (first, others): (Vec<_>, Vec<_>) = values.into_iter().partition(is_first);
    first.into_iter().chain(others).collect()
}

/// Keeps the first entries of a list, and returns the number of the others.
fn shorten<T>(list: &mut Vec<T>, most: usize) -> u32 {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    number(more)
}

fn number(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

/// Reports whether a value that is set after the configuration may not be published: it may be secret, or is too long.
fn is_unpublished(set: &SetAbove) -> bool {
    let value = set.value.to_string();
    let is_long = |text: &str, most: usize| text.chars().nth(most).is_some();
    secrets::is_secret(&set.path)
        || secrets::redacted(&set.path, &value) != value
        || is_long(&value, OwnValue::MAX_VALUE)
        || is_long(&set.path, OwnValue::MAX_FIELD)
        || is_long(&set.by.to_string(), OverriddenValue::MAX_BY)
}

/// An overridden value as it may be published: without secrets, and cut to its limits.
fn published(found: Overridden) -> OverriddenValue {
    let Overridden { path, named, running, by } = found;
    let value = |value: serde_json::Value| {
        let text = secrets::redacted(&path, &value.to_string());
        if secrets::is_secret(&path) { secrets::NOT_SHOWN.to_owned() } else { cut(&text, OwnValue::MAX_VALUE) }
    };
    let (reviewed, running) = (Some(value(named)), running.map(value));
    let by = match by {
        Origin::Default => None,
        by => Some(cut(&by.to_string(), OverriddenValue::MAX_BY)),
    };
    OverriddenValue { field: cut(&path, OwnValue::MAX_FIELD), reviewed, running, by }
}

/// The start of a text of at most this length, with the mark of a cut.
fn cut(text: &str, most: usize) -> String {
    at_most(text, most.saturating_sub(1))
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
