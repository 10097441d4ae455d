//! Report of `validate` as text: findings with their source lines, and a summary.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Batch, HostQuestion, Renderer, Totals, unknown};
use crate::report::style::{bad, good, quiet, warning};
use crate::report::{count, findings};
use kubelet_config::finding::Severity;

pub(super) struct TextReport {
    /// Whether notes and open host checks are shown.
    pub verbose: bool,
    /// The maximum line width, in columns.
    pub width: usize,
    /// The code of the worst finding shown, for the hint to `nodecfg explain`.
    pub example: Option<(Severity, &'static str)>,
}

impl Renderer for TextReport {
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        let shown = batch.all().map(|finding| (finding.severity, finding.code));
        let worst = findings::worst(self.example.into_iter().chain(shown));
        self.example = worst;
        findings::write_each(
            out,
            batch.texts,
            batch.all().filter(|finding| self.verbose || finding.severity != Severity::Note),
            self.width,
        )?;
        if self.verbose {
            // Pools that share a base share its open checks.
            let mut asked = BTreeSet::new();
            for question in batch.files.iter().flat_map(|file| unknown(&file.verdicts)) {
                let sentence = sentence(&question);
                if asked.insert(sentence.clone()) {
                    writeln!(out, "{} {sentence}", quiet("host:"))?;
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
            let parts: Vec<String> =
                answers.parts().into_iter().map(|(fine, text)| if fine { text } else { bad(text) }).collect();
            let assumed = if totals.assumed == Some(*minor) { " (assumed: see --kubernetes-version)" } else { "" };
            writeln!(out, "  kubelet {minor}{}: {}", quiet(assumed), parts.join(", "))?;
        }
        if let Some((_, code)) = self.example {
            writeln!(out, "  {}", findings::explain_hint(code))?;
        }
        if self.verbose {
            return Ok(());
        }
        let mut more = Vec::new();
        if totals.notes > 0 {
            more.push(count(totals.notes, "note"));
        }
        if totals.unknown > 0 {
            more.push(format!("{} that need the node's host", count(totals.unknown, "check")));
        }
        if !more.is_empty() {
            writeln!(out, "  {}", quiet(format!("{}; show with -v", more.join(", "))))?;
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
    let word = if totals.is_valid() { good("Valid:") } else { bad("Invalid:") };
    format!("{word} {}", parts.join(", "))
}
