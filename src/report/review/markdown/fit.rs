//! Length limit of markdown reviews. Omits whole parts, the least important first, and lists them in a note.

use super::pool::Details;
use crate::report::{count, names};

/// Maximum number of names of omitted pools.
const MAX_NAMES: usize = 3;

/// The parts of a review, in order.
pub(super) struct Parts {
    /// The verdict. Never omitted.
    pub(super) head: String,
    /// The header of the table.
    pub(super) table: String,
    /// A row per pool, worst risk first.
    pub(super) rows: Vec<String>,
    /// The unchanged pools and reformatted files, after the table.
    pub(super) after_rows: String,
    /// The details of each pool, worst risk first.
    pub(super) pools: Vec<Details>,
    /// The names of the pools in `pools`, with their number.
    pub(super) names: Vec<(String, usize)>,
    /// Nodes that move between pools, and nodes without a pool.
    pub(super) others: String,
    /// Warnings.
    pub(super) findings: String,
    /// The footer that explains nodecfg.
    pub(super) foot: String,
    /// The command that shows the omitted parts, as code.
    pub(super) all: String,
}

/// The parts to omit, in the order of omission.
struct Cuts {
    findings: bool,
    /// The number of pools, from the end, in brief form.
    brief: usize,
    /// The number of pools, from the end, to omit.
    pools: usize,
    /// The number of rows, from the end, to omit.
    rows: usize,
    others: bool,
    after_rows: bool,
    foot: bool,
}

/// The length in UTF-16 units, which is never less than the number of characters.
pub(super) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Parts {
    /// The review within `most` UTF-16 units.
    pub(super) fn within(&self, most: Option<usize>) -> String {
        let most = most.unwrap_or(usize::MAX);
        let all: Vec<usize> = (0..2 * self.pools.len() + self.rows.len() + 4).collect();
        let needed = all.partition_point(|cuts| length(&self.write(&self.cuts(*cuts))) > most);
        self.write(&self.cuts(needed))
    }

    /// The first `left` cuts. Shortens pools before it omits pools.
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

    /// A note that lists the omitted parts. Empty if nothing was omitted.
    fn note(&self, cuts: &Cuts) -> String {
        let number = self.pools.len();
        let named = |pools: &[&(String, usize)]| {
            let listed: Vec<String> = pools.iter().map(|(name, _)| format!("`{name}`")).collect();
            let number = pools.iter().map(|(_, number)| number).sum();
            format!("{} ({})", count(number, "pool"), names(listed.iter().map(String::as_str), MAX_NAMES))
        };
        let omitted: Vec<&(String, usize)> = self.names.iter().skip(number - cuts.pools).collect();
        let brief = self.names.iter().zip(&self.pools).take(number - cuts.pools).skip(number - cuts.brief);
        let cut: Vec<&(String, usize)> =
            brief.filter(|(_, pool)| pool.full != pool.brief).map(|(name, _)| name).collect();
        let mut out = Vec::new();
        if !omitted.is_empty() {
            out.push(format!("the details of {}", named(&omitted)));
        }
        if !cut.is_empty() {
            out.push(format!("some details of {}", named(&cut)));
        }
        if cuts.rows > 0 {
            out.push(format!("{} of the table", count(cuts.rows, "row")));
        }
        if cuts.findings && !self.findings.is_empty() {
            out.push("the warnings".to_owned());
        }
        if (cuts.others && !self.others.is_empty()) || (cuts.after_rows && !self.after_rows.trim().is_empty()) {
            out.push("notes on other nodes and pools".to_owned());
        }
        if out.is_empty() {
            return String::new();
        }
        format!("**Shortened**, without {}. See all with {}.\n\n", out.join("; "), self.all)
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
