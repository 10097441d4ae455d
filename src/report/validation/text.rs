//! Report of `validate` as text: findings with their source lines, and a summary.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Batch, MergedHostCondition, Renderer, Totals, merged_host_conditions};
use crate::layout::hanging;
use crate::report::style::{bad, good, quiet, warning};
use crate::report::{count, findings};
use kubelet_config::finding::Severity;

pub(super) struct TextReport {
    /// Whether notes and host conditions are shown.
    pub verbose: bool,
    /// The maximum line width, in columns.
    pub width: usize,
    /// Severity and code of the worst finding so far, for the hint to `nodecfg explain`. Notes do not count.
    pub worst_finding: Option<(Severity, &'static str)>,
}

impl Renderer for TextReport {
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        let codes = batch.all().map(|finding| (finding.severity, finding.code));
        self.worst_finding = findings::worst(self.worst_finding.into_iter().chain(codes));
        findings::write_each(
            out,
            batch.texts,
            batch.all().filter(|finding| self.verbose || finding.severity != Severity::Note),
            self.width,
        )?;
        if self.verbose {
            // Pools with the same base have the same host conditions; print each once.
            let mut printed = BTreeSet::new();
            for condition in batch.files.iter().flat_map(|file| merged_host_conditions(&file.verdicts)) {
                let line = host_condition_line(&condition);
                if printed.insert(line.clone()) {
                    writeln!(out, "{}", hanging(&format!("{} {line}", quiet("host:")), 6, self.width))?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        if self.verbose && totals.host_conditions > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", summary_line(totals))?;
        for (minor, result) in &totals.kubelets {
            let parts: Vec<String> =
                result.parts().into_iter().map(|(is_good, text)| if is_good { text } else { bad(text) }).collect();
            let assumed = if totals.assumed == Some(*minor) { " (assumed: see --kubernetes-version)" } else { "" };
            let line = format!("  kubelet {minor}{}: {}", quiet(assumed), parts.join(", "));
            writeln!(out, "{}", hanging(&line, 4, self.width))?;
        }
        if let Some((_, code)) = self.worst_finding {
            writeln!(out, "{}", findings::explain_hint(code, self.width))?;
        }
        if self.verbose {
            return Ok(());
        }
        let mut more = Vec::new();
        if totals.notes > 0 {
            more.push(count(totals.notes, "note"));
        }
        if totals.host_conditions > 0 {
            let need = if totals.host_conditions == 1 { "needs" } else { "need" };
            more.push(format!("{} that {need} the node's host", count(totals.host_conditions, "check")));
        }
        if !more.is_empty() {
            let line = quiet(format!("  {}; show with -v", more.join(", ")));
            writeln!(out, "{}", hanging(&line, 4, self.width))?;
        }
        Ok(())
    }
}

fn host_condition_line(condition: &MergedHostCondition) -> String {
    format!("{} {}", condition.message, quiet(format!("({})", condition.place)))
}

fn summary_line(totals: &Totals) -> String {
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
