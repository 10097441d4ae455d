//! The report as markdown, for a pull request.

use std::io::{self, Write};

use super::{Batch, Renderer, Totals};
use crate::report::count;
use crate::report::findings::{kubelets, row};

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<String>,
}

impl Renderer for Table {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        self.rows.extend(batch.all().map(row));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let checked = match (totals.pools, totals.files) {
            (pools, 0) => count(pools, "pool"),
            (0, files) => count(files, "file"),
            (pools, files) => format!("{}, {}", count(pools, "pool"), count(files, "file")),
        };
        if self.rows.is_empty() {
            writeln!(out, "**nodecfg**: {checked} valid, nothing to report.")?;
        } else if totals.is_valid() {
            writeln!(out, "### nodecfg: {checked} valid\n")?;
        } else {
            writeln!(out, "### nodecfg: invalid, {}\n", count(totals.errors, "error"))?;
        }
        if !self.rows.is_empty() {
            writeln!(out, "| severity | where | what | way out |\n|---|---|---|---|")?;
        }
        for row in &self.rows {
            writeln!(out, "{row}")?;
        }
        for (minor, answers) in &totals.kubelets {
            let assumed = if totals.assumed == Some(*minor) { " (assumed)" } else { "" };
            let mut said = vec![format!("accepts {}", answers.accepted)];
            if answers.not_starting > 0 {
                said.push(format!("would not start on {} of them", answers.not_starting));
            }
            if answers.refused > 0 {
                said.push(format!("refuses {}", answers.refused));
            }
            writeln!(out, "\n{}{assumed}: {}.", kubelets(&[*minor]), said.join(", "))?;
        }
        Ok(())
    }
}
