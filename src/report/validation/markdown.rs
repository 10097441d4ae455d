//! Report of `validate` as markdown, for a pull request.

use std::io::{self, Write};

use super::{Batch, Renderer, Totals};
use crate::report::count;
use crate::report::findings::{kubelets, row};
use crate::report::markdown::prose;
use kubelet_config::finding::Severity;

pub(super) struct MarkdownReport {
    /// Whether notes have rows.
    verbose: bool,
    rows: Vec<String>,
}

impl MarkdownReport {
    pub(super) fn new(verbose: bool) -> Self {
        Self { verbose, rows: Vec::new() }
    }
}

impl Renderer for MarkdownReport {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        let shown = batch.all().filter(|finding| self.verbose || finding.severity != Severity::Note);
        self.rows.extend(shown.map(row));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let checked = match (totals.pools, totals.files) {
            (pools, 0) => count(pools, "pool"),
            (0, files) => count(files, "file"),
            (pools, files) => format!("{}, {}", count(pools, "pool"), count(files, "file")),
        };
        if self.rows.is_empty() {
            let rest = if totals.notes == 0 { ", nothing to report" } else { "" };
            writeln!(out, "**nodecfg**: {checked} valid{rest}.")?;
        } else if totals.is_valid() {
            writeln!(out, "### nodecfg: {checked} valid\n")?;
        } else {
            writeln!(out, "### nodecfg: invalid, {}\n", count(totals.errors, "error"))?;
        }
        if !self.rows.is_empty() {
            writeln!(out, "| severity | place | message | fix |\n|---|---|---|---|")?;
        }
        for row in &self.rows {
            writeln!(out, "{row}")?;
        }
        for (minor, results) in &totals.kubelets {
            let assumed = if totals.assumed == Some(*minor) { " (assumed)" } else { "" };
            let parts: Vec<String> = results.parts().into_iter().map(|(_, text)| prose(&text)).collect();
            writeln!(out, "\n{}{assumed}: {}.", kubelets(&[*minor]), parts.join(", "))?;
        }
        if totals.notes > 0 && !self.verbose {
            writeln!(out, "\n{}; show with `-v`.", count(totals.notes, "note"))?;
        }
        Ok(())
    }
}
