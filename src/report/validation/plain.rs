//! The report for people: every finding with its source line, and a summary.

use std::io::{self, Write};

use super::{Batch, HostQuestion, Renderer, Totals, unknown};
use crate::report::style::{bad, good, quiet, warning};
use crate::report::{count, findings};

pub(super) struct Plain {
    /// Whether what only the host can tell is listed.
    pub verbose: bool,
}

impl Renderer for Plain {
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        findings::each(out, batch.texts, batch.all())?;
        if self.verbose {
            for file in batch.files {
                for question in unknown(&file.verdicts) {
                    writeln!(out, "{} {}", quiet("host:"), sentence(&question))?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        if self.verbose && totals.unknown > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", verdict(totals))?;
        for (minor, answers) in &totals.kubelets {
            let mut said = Vec::new();
            if answers.accepted > 0 {
                said.push(format!("accepts {}", answers.accepted));
            }
            if answers.not_starting > 0 {
                said.push(bad(format!("would not start on {} of them", answers.not_starting)));
            }
            if answers.refused > 0 {
                said.push(bad(format!("refuses {}", answers.refused)));
            }
            let assumed = if totals.assumed == Some(*minor) { " (assumed: see --kubernetes-version)" } else { "" };
            writeln!(out, "  kubelet {minor}{}: {}", quiet(assumed), said.join(", "))?;
        }
        if totals.unknown > 0 && !self.verbose {
            let things = count(totals.unknown, "thing");
            writeln!(out, "  {}", quiet(format!("{things} that only a node's host can tell: -v lists them")))?;
        }
        Ok(())
    }
}

fn sentence(question: &HostQuestion) -> String {
    format!("{} {}", question.message, quiet(format!("({})", question.place)))
}

fn verdict(totals: &Totals) -> String {
    let mut parts = Vec::new();
    if totals.pools > 0 || (totals.files == 0 && totals.is_valid()) {
        parts.push(count(totals.pools, "pool"));
    }
    if totals.files > 0 {
        parts.push(count(totals.files, "file"));
    }
    if totals.errors > 0 {
        parts.push(bad(count(totals.errors, "error")));
    }
    if totals.warnings > 0 {
        parts.push(warning(count(totals.warnings, "warning")));
    }
    if totals.notes > 0 {
        parts.push(quiet(count(totals.notes, "note")));
    }
    let word = if totals.is_valid() { good("Valid:") } else { bad("Invalid:") };
    format!("{word} {}", parts.join(", "))
}
