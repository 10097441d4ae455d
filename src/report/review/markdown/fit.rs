//! Keeps markdown within a number of characters by leaving out whole parts of it, the least important first: what stays is
//! never cut in the middle, and what was left out is said.

use super::pool::Details;
use crate::report::{count, names};

/// How many pools are named that have been left out.
const NAMES: usize = 3;

/// The parts of a review, in order.
pub(super) struct Parts<'a> {
    /// The verdict. Always there.
    pub(super) head: String,
    /// The header of the table.
    pub(super) table: String,
    /// A row a pool, worst risk first.
    pub(super) rows: Vec<String>,
    /// What follows the table.
    pub(super) after_rows: String,
    /// A pool each, worst risk first.
    pub(super) pools: Vec<Details>,
    /// The names of these pools.
    pub(super) names: Vec<&'a str>,
    /// Nodes outside of pools.
    pub(super) others: String,
    /// Warnings.
    pub(super) findings: String,
    /// What nodecfg is.
    pub(super) foot: String,
    /// The command that shows what was left out, as code.
    pub(super) all: String,
}

/// What is left out.
struct Cuts {
    findings: bool,
    /// Of how many pools, the last ones, only the brief form is shown.
    brief: usize,
    /// How many pools, the last ones, are not shown.
    pools: usize,
    /// How many rows, the last ones, are not shown.
    rows: usize,
    others: bool,
    after_rows: bool,
    foot: bool,
}

/// The length as UTF-16 counts it, which is never less than the number of characters.
pub(super) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Parts<'_> {
    /// The whole within so many characters.
    pub(super) fn within(&self, most: Option<usize>) -> String {
        let most = most.unwrap_or(usize::MAX);
        let all: Vec<usize> = (0..2 * self.pools.len() + self.rows.len() + 4).collect();
        let needed = all.partition_point(|cuts| length(&self.write(&self.cuts(*cuts))) > most);
        self.write(&self.cuts(needed))
    }

    /// The first cuts, so many of them. Pools with very many fields are shortened before others are left out altogether.
    fn cuts(&self, mut left: usize) -> Cuts {
        let mut take = |most: usize| {
            let taken = left.min(most);
            left -= taken;
            taken
        };
        Cuts {
            findings: take(1) > 0,
            brief: take(self.pools.len()),
            pools: take(self.pools.len()),
            rows: take(self.rows.len()),
            others: take(1) > 0,
            after_rows: take(1) > 0,
            foot: take(1) > 0,
        }
    }

    /// What was left out, and how to see it; empty when nothing was.
    fn note(&self, cuts: &Cuts) -> String {
        let number = self.pools.len();
        let named = |pools: &[&str]| {
            let listed: Vec<String> = pools.iter().map(|name| format!("`{name}`")).collect();
            names(listed.iter().map(String::as_str), NAMES)
        };
        let gone: Vec<&str> = self.names.iter().skip(number - cuts.pools).copied().collect();
        let brief = self.names.iter().zip(&self.pools).take(number - cuts.pools).skip(number - cuts.brief);
        let cut: Vec<&str> = brief.filter(|(_, pool)| pool.full != pool.brief).map(|(name, _)| *name).collect();
        let mut out = Vec::new();
        if !gone.is_empty() {
            out.push(format!("the details of {} ({})", count(gone.len(), "pool"), named(&gone)));
        }
        if !cut.is_empty() {
            out.push(format!("some details of {} ({})", count(cut.len(), "pool"), named(&cut)));
        }
        if cuts.rows > 0 {
            out.push(format!("{} of the table", count(cuts.rows, "row")));
        }
        if cuts.findings && !self.findings.is_empty() {
            out.push("the warnings".to_owned());
        }
        if (cuts.others && !self.others.is_empty()) || (cuts.after_rows && !self.after_rows.trim().is_empty()) {
            out.push("what is said of nodes and pools beside these".to_owned());
        }
        if out.is_empty() {
            return String::new();
        }
        format!("**Left out for length**: {}. {} shows all of it.\n\n", out.join("; "), self.all)
    }

    fn write(&self, cuts: &Cuts) -> String {
        let number = self.pools.len();
        let (rows, full, shown) = (self.rows.len() - cuts.rows, number - cuts.brief, number - cuts.pools);
        let mut text = self.head.clone();
        if rows > 0 {
            text.push_str(&self.table);
            text.extend(self.rows.iter().take(rows).map(String::as_str));
        }
        text.push_str(if cuts.after_rows { "\n" } else { &self.after_rows });
        text.extend(self.pools.iter().take(full).map(|pool| pool.full.as_str()));
        text.extend(self.pools.iter().take(shown).skip(full).map(|pool| pool.brief.as_str()));
        let (note, nothing) = (self.note(cuts), String::new());
        let parts =
            [(cuts.others, &self.others), (cuts.findings, &self.findings), (false, &note), (cuts.foot, &self.foot)];
        text.extend(parts.map(|(cut, part)| if cut { nothing.as_str() } else { part.as_str() }));
        text
    }
}
