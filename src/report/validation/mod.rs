//! What `validate` reports: a stream of batches, each the files of one repository or one file on its own, and totals at
//! the end. One renderer per format; none of them keeps a text, so that any number of files can pass.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::Format;
use super::findings::Texts;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Place, Severity};
use kubelet_config::verdict::{Stage, Verdict};

pub mod annotations;
mod junit;
mod path;
mod plain;
mod sarif;
mod table;
mod tree;

pub use path::Location;
pub use tree::Validation;

/// What there is to say of one file.
#[derive(Debug, Clone, Default)]
pub struct FileReport {
    /// Its path, as findings name it.
    pub file: String,
    /// The kubelets' answers, when it is a whole configuration that could be judged, or when a pool's is rendered from it.
    pub verdicts: Vec<Verdict>,
    /// What is wrong with it or worth knowing.
    pub findings: Vec<Finding>,
}

/// Files that belong together.
pub struct Batch<'a> {
    /// Where their paths begin: the repository's folder, empty for the current one.
    pub root: &'a str,
    /// The files.
    pub files: &'a [FileReport],
    /// Findings that belong to no file.
    pub findings: &'a [Finding],
    /// The texts that places point into.
    pub texts: &'a dyn Texts,
}

impl Batch<'_> {
    /// Every finding: those without a file first, then file by file.
    pub fn all(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.files.iter().flat_map(|file| &file.findings))
    }
}

/// What kubelets of one version said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Configurations that it accepts.
    pub accepted: usize,
    /// Configurations that it refuses.
    pub refused: usize,
    /// Configurations that it accepts and would not start on.
    pub not_starting: usize,
    /// The first of those that it does not run, by file: what it refuses, and what it would not start on.
    named: (Vec<String>, Vec<String>),
}

/// How many files are named in a summary.
const NAMED: usize = 3;

impl Answers {
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
        if list.len() < NAMED {
            list.push(file.to_owned());
        }
    }

    /// What the kubelet does, in parts, each with whether it is good: `accepts 2`, `refuses 1: pools/gpu/kubelet.yaml`.
    fn said(&self) -> Vec<(bool, String)> {
        let one = self.accepted + self.refused == 1;
        let of = |names: &[String], number: usize| match number - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        };
        let mut said = Vec::new();
        if self.accepted > 0 {
            said.push((true, if one { "accepts it".to_owned() } else { format!("accepts {}", self.accepted) }));
        }
        if self.not_starting > 0 {
            let text = format!("would not start on {}: {}", self.not_starting, of(&self.named.1, self.not_starting));
            said.push((false, if one { "would not start on it".to_owned() } else { text }));
        }
        if self.refused > 0 {
            let text = format!("refuses {}: {}", self.refused, of(&self.named.0, self.refused));
            said.push((false, if one { "refuses it".to_owned() } else { text }));
        }
        said
    }
}

/// The sum of all batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files that were named one by one.
    pub files: usize,
    /// Pools of repositories.
    pub pools: usize,
    /// Findings by severity.
    pub errors: usize,
    /// See [`Self::errors`].
    pub warnings: usize,
    /// See [`Self::errors`].
    pub notes: usize,
    /// The kubelets' answers by version.
    pub kubelets: BTreeMap<Minor, Answers>,
    /// The version that configurations were checked for because nobody named one.
    pub assumed: Option<Minor>,
    /// How many things only a node's host can tell.
    pub unknown: usize,
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
        // Pools that share a base share its questions.
        let questions: BTreeSet<(String, Place)> = batch
            .files
            .iter()
            .flat_map(|file| unknown(&file.verdicts))
            .map(|question| (question.message, question.place))
            .collect();
        self.unknown += questions.len();
        for file in batch.files {
            for verdict in &file.verdicts {
                self.kubelets.entry(verdict.minor).or_default().add(&file.file, verdict);
            }
        }
    }

    /// Whether everything is good.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors == 0
    }
}

/// Something that only the host of a node can tell, with the versions that ask it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct HostQuestion {
    /// The field.
    pub field: String,
    /// What has to be true of the host.
    pub message: String,
    /// Where the value is.
    pub place: Place,
    /// The versions.
    pub kubelets: Vec<Minor>,
}

/// What the verdicts leave open, each thing once.
#[must_use]
pub fn unknown(verdicts: &[Verdict]) -> Vec<HostQuestion> {
    let mut questions: Vec<HostQuestion> = Vec::new();
    for verdict in verdicts {
        for open in &verdict.unknown {
            let same = |other: &&mut HostQuestion| other.field == open.field && other.message == open.message;
            match questions.iter_mut().find(same) {
                Some(question) => question.kubelets.push(verdict.minor),
                None => questions.push(HostQuestion {
                    field: open.field.clone(),
                    message: open.message.clone(),
                    place: open.place.clone(),
                    kubelets: vec![verdict.minor],
                }),
            }
        }
    }
    questions
}

/// Writes a report in one format.
pub trait Renderer {
    /// Writes what can be written of a batch.
    ///
    /// # Errors
    /// When the writer does.
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()>;

    /// Writes the rest.
    ///
    /// # Errors
    /// When the writer does.
    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()>;
}

/// What a report about files can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As everything else.
    Format(Format),
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for the test reports of a pipeline.
    Junit,
}

/// The renderer of a format. `verbose`: people also get notes and what only the host can tell; programs always do.
/// `width`: how wide lines of text may be. `location` says where files are to those who look
/// at them from elsewhere, such as a code scanning service.
#[must_use]
pub fn renderer(shape: Shape, verbose: bool, width: usize, location: Location) -> Box<dyn Renderer> {
    match shape {
        Shape::Format(Format::Text) => Box::new(plain::Plain { verbose, width, example: None }),
        Shape::Format(Format::Json) => Box::new(tree::Tree::new(false)),
        Shape::Format(Format::Yaml) => Box::new(tree::Tree::new(true)),
        Shape::Format(Format::Markdown) => Box::new(table::Table::new(verbose)),
        Shape::Sarif => Box::new(sarif::Sarif::new(location)),
        Shape::Junit => Box::new(junit::Junit::default()),
    }
}

/// The stage as it is written.
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
    fn a_summary_names_the_first_files_that_do_not_run() {
        let verdict = |stage| Verdict {
            minor: Minor(36),
            stage,
            refusals: Vec::new(),
            startup: Vec::new(),
            later: Vec::new(),
            unknown: Vec::new(),
        };
        let said = |files: &[(&str, Stage)]| {
            let mut answers = Answers::default();
            files.iter().for_each(|(file, stage)| answers.add(file, &verdict(*stage)));
            answers.said().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(said(&[("a", Stage::Ok)]), "accepts it");
        assert_eq!(said(&[("a", Stage::Load)]), "refuses it");
        assert_eq!(said(&[("a", Stage::Load), ("b", Stage::Ok)]), "accepts 1, refuses 1: a");
        let many = ["a", "b", "c", "d", "e"].map(|file| (file, Stage::Gates));
        assert_eq!(said(&many), "refuses 5: a, b, c and 2 more");
    }
}
