//! Report of `validate`: a stream of batches, then totals. One renderer per format.
//!
//! A batch holds the files of one repository, or one single file. Renderers keep findings but no file contents, so
//! memory does not grow with the size of files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::Format;
use super::error::ErrorMessage;
use super::findings::SourceTexts;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Place, Severity};
use kubelet_config::verdict::{Stage, Verdict};

pub mod annotations;
mod document;
mod junit;
mod location;
mod markdown;
mod sarif;
mod text;

pub use document::Validation;
pub use location::Location;

/// The result for one file.
#[derive(Debug, Clone, Default)]
pub struct FileReport {
    /// The path, as in findings.
    pub file: String,
    /// The results per kubelet version. Filled for a complete configuration, and for a pool's file that a
    /// configuration is rendered from.
    pub verdicts: Vec<Verdict>,
    /// The findings of the file.
    pub findings: Vec<Finding>,
}

/// Files that belong together.
pub struct Batch<'a> {
    /// The folder of the paths: the repository, or empty for the current folder.
    pub root: &'a str,
    /// The files.
    pub files: &'a [FileReport],
    /// Findings that refer to no file.
    pub findings: &'a [Finding],
    /// The file contents.
    pub texts: &'a SourceTexts<'a>,
}

impl Batch<'_> {
    /// All findings: those without a file first, then file by file.
    pub fn all(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.files.iter().flat_map(|file| &file.findings))
    }
}

/// Results of one kubelet version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionTotals {
    /// Accepted configurations.
    pub accepted: usize,
    /// Refused configurations.
    pub refused: usize,
    /// Accepted configurations with which the kubelet exits during startup.
    pub not_starting: usize,
    /// The first refused files, and the first files with which the kubelet exits during startup. At most
    /// [`MAX_NAMED_FILES`] each.
    named: (Vec<String>, Vec<String>),
}

/// Maximum number of file names per result in a summary.
const MAX_NAMED_FILES: usize = 3;

impl VersionTotals {
    fn add(&mut self, file: &str, verdict: &Verdict) {
        let list = if !verdict.accepted() {
            self.refused += 1;
            &mut self.named.0
        } else {
            self.accepted += 1;
            if verdict.runs() {
                return;
            }
            self.not_starting += 1;
            &mut self.named.1
        };
        if list.len() < MAX_NAMED_FILES {
            list.push(file.to_owned());
        }
    }

    /// The result as phrases for a summary, each with whether it is good: `accepts 2`, `refuses 1:
    /// pools/gpu/kubelet.yaml`.
    fn parts(&self) -> Vec<(bool, String)> {
        let one = self.accepted + self.refused == 1;
        let of = |names: &[String], number: usize| match number - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        };
        let mut parts = Vec::new();
        if self.accepted > 0 {
            parts.push((true, if one { "accepts it".to_owned() } else { format!("accepts {}", self.accepted) }));
        }
        if self.not_starting > 0 {
            let text = format!("would not start on {}: {}", self.not_starting, of(&self.named.1, self.not_starting));
            parts.push((false, if one { "would not start on it".to_owned() } else { text }));
        }
        if self.refused > 0 {
            let text = format!("refuses {}: {}", self.refused, of(&self.named.0, self.refused));
            parts.push((false, if one { "refuses it".to_owned() } else { text }));
        }
        parts
    }
}

/// The sum of all batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files given one by one.
    pub files: usize,
    /// Pools of repositories.
    pub pools: usize,
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
    /// Notes.
    pub notes: usize,
    /// The results per kubelet version.
    pub kubelets: BTreeMap<Minor, VersionTotals>,
    /// The assumed version, if no version is configured.
    pub assumed: Option<Minor>,
    /// Number of host conditions. Conditions with the same message and place count once per batch.
    pub host_conditions: usize,
}

impl Totals {
    /// Adds a batch.
    pub fn add(&mut self, batch: &Batch<'_>) {
        for finding in batch.all() {
            match finding.severity {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
                Severity::Note => self.notes += 1,
            }
        }
        // Pools with the same base have the same host conditions; count each once.
        let conditions: BTreeSet<(String, Place)> = batch
            .files
            .iter()
            .flat_map(|file| merged_host_conditions(&file.verdicts))
            .map(|condition| (condition.message, condition.place))
            .collect();
        self.host_conditions += conditions.len();
        for file in batch.files {
            for verdict in &file.verdicts {
                self.kubelets.entry(verdict.minor).or_default().add(&file.file, verdict);
            }
        }
    }

    /// Reports whether there are no errors.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors == 0
    }
}

/// A check that needs the node's host, with the versions that perform it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "HostQuestion")]
pub struct MergedHostCondition {
    /// The field.
    pub field: String,
    /// The requirement for the host.
    pub message: String,
    /// The place of the value.
    pub place: Place,
    /// The versions.
    pub kubelets: Vec<Minor>,
}

/// The host conditions of all versions. Merges conditions with the same field and message.
#[must_use]
pub fn merged_host_conditions(verdicts: &[Verdict]) -> Vec<MergedHostCondition> {
    let mut conditions: Vec<MergedHostCondition> = Vec::new();
    for verdict in verdicts {
        for open in &verdict.host_conditions {
            let same = |other: &&mut MergedHostCondition| other.field == open.field && other.message == open.message;
            match conditions.iter_mut().find(same) {
                Some(condition) => condition.kubelets.push(verdict.minor),
                None => conditions.push(MergedHostCondition {
                    field: open.field.clone(),
                    message: open.message.clone(),
                    place: open.place.clone(),
                    kubelets: vec![verdict.minor],
                }),
            }
        }
    }
    conditions
}

/// Writes a report in one format.
pub trait Renderer {
    /// Writes the parts of a batch that can be written immediately.
    ///
    /// # Errors
    /// When `out` cannot be written.
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()>;

    /// Writes the rest.
    ///
    /// # Errors
    /// When `out` cannot be written, or a document cannot be serialized, which is a bug.
    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()>;
}

/// Creates the renderer of a format. With `verbose`, text and markdown include notes, and text includes host
/// conditions. Other formats always include notes; of them, JSON and YAML include host conditions. `width` is the
/// maximum line width of text, in columns. `location` makes paths in SARIF relative to the checkout.
#[must_use]
pub fn renderer(format: Format, verbose: bool, width: usize, location: Location) -> Box<dyn Renderer> {
    match format {
        // Commands refuse the others.
        Format::Text | Format::Wide | Format::Name | Format::Html => {
            Box::new(text::TextReport { verbose, width, worst_finding: None })
        }
        Format::Json => Box::new(document::DocumentReport::new(false)),
        Format::Yaml => Box::new(document::DocumentReport::new(true)),
        Format::Markdown => Box::new(markdown::MarkdownReport::new(verbose)),
        Format::Sarif => Box::new(sarif::Sarif::new(location)),
        Format::Junit => Box::new(junit::Junit::default()),
    }
}

/// Writes the report of a check that failed as a whole: an empty file would be read as a success. Only for formats that
/// have no document of their own for errors.
///
/// # Errors
/// When `out` cannot be written.
pub fn failed(format: Format, out: &mut dyn Write, errors: &[ErrorMessage]) -> io::Result<()> {
    match format {
        Format::Junit => junit::failed(out, errors),
        Format::Sarif => sarif::failed(out, errors),
        _ => Ok(()),
    }
}

/// The name of a stage in reports.
fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Load => "load",
        Stage::Gates => "gates",
        Stage::Validate => "validate",
        Stage::Ok => "ok",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_the_first_failing_files() {
        let verdict = |stage| Verdict {
            minor: Minor(36),
            stage,
            refusals: Vec::new(),
            startup: Vec::new(),
            later: Vec::new(),
            host_conditions: Vec::new(),
        };
        let parts = |files: &[(&str, Stage)]| {
            let mut results = VersionTotals::default();
            files.iter().for_each(|(file, stage)| results.add(file, &verdict(*stage)));
            results.parts().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(parts(&[("a", Stage::Ok)]), "accepts it");
        assert_eq!(parts(&[("a", Stage::Load)]), "refuses it");
        assert_eq!(parts(&[("a", Stage::Load), ("b", Stage::Ok)]), "accepts 1, refuses 1: a");
        let many = ["a", "b", "c", "d", "e"].map(|file| (file, Stage::Gates));
        assert_eq!(parts(&many), "refuses 5: a, b, c and 2 more");
    }
}
