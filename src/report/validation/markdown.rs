//! Report of `validate` as markdown, for a pull request.

use std::io::{self, Write};

use super::{Batch, Renderer, Totals, VersionTotals};
use crate::report::count;
use crate::report::document::markdown;
use crate::report::document::{Block, Conclusion, Item, Report};
use crate::report::findings::{kubelets, table};
use crate::status::Grade;
use kubelet_config::finding::{Finding, Severity};

pub(super) struct MarkdownReport {
    /// Whether notes have rows.
    verbose: bool,
    findings: Vec<Finding>,
}

impl MarkdownReport {
    pub(super) fn new(verbose: bool) -> Self {
        Self { verbose, findings: Vec::new() }
    }
}

impl Renderer for MarkdownReport {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        let shown = batch.all().filter(|finding| self.verbose || finding.severity != Severity::Note);
        self.findings.extend(shown.cloned());
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let checked = match (totals.pools, totals.files) {
            (pools, 0) => count(pools, "pool"),
            (0, files) => count(files, "file"),
            (pools, files) => format!("{}, {}", count(pools, "pool"), count(files, "file")),
        };
        let result = match totals.is_valid() {
            true if self.findings.is_empty() && totals.notes == 0 => {
                Conclusion::sentence(Grade::Good, format!("{checked} valid, nothing to report"))
            }
            true => Conclusion::sentence(Grade::Good, format!("{checked} valid")),
            false => Conclusion::sentence(Grade::Bad, format!("invalid, {}", count(totals.errors, "error"))),
        };
        let kubelet = |(minor, results): (&_, &VersionTotals)| {
            let assumed = if totals.assumed == Some(*minor) { " (assumed)" } else { "" };
            let parts: Vec<String> = results.parts().into_iter().map(|(_, text)| text).collect();
            Item::new(format!("{}{assumed}: {}.", kubelets(&[*minor]), parts.join(", ")))
        };
        let kubelets = totals.kubelets.iter().map(kubelet);
        let notes = (totals.notes > 0 && !self.verbose)
            .then(|| Item::new(format!("{}; show with `-v`.", count(totals.notes, "note"))));
        let report = Report {
            command: "validate",
            result: Some(result),
            blocks: [Block::Table(table(&self.findings))]
                .into_iter()
                .chain(kubelets.chain(notes).map(Block::Item))
                .collect(),
            ..Report::default()
        };
        markdown::write(out, &report, false, None)
    }
}
