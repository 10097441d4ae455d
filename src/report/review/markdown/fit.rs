//! Keeps markdown within a number of characters by leaving out whole parts of it, the least important first: what stays is
//! never cut in the middle, and what was left out is said.

use std::fmt::Write as _;

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

/// How much of a pool is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    Brief,
    Nothing,
}

/// What is shown and what is not.
struct Choice {
    findings: bool,
    others: bool,
    after_rows: bool,
    foot: bool,
    extents: Vec<Extent>,
    rows: usize,
}

/// How a part is left out.
type LeaveOut = fn(&mut Choice);

/// The length as UTF-16 counts it, which is never less than the number of characters.
pub(super) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Parts<'_> {
    /// The whole within so many characters.
    pub(super) fn within(&self, most: Option<usize>) -> String {
        let mut choice = Choice {
            findings: true,
            others: true,
            after_rows: true,
            foot: true,
            extents: vec![Extent::Full; self.pools.len()],
            rows: self.rows.len(),
        };
        if let Some(most) = most {
            self.shrink(&mut choice, most);
        }
        self.write(&choice)
    }

    fn shrink(&self, choice: &mut Choice, most: usize) {
        let lengths: Vec<(usize, usize)> =
            self.pools.iter().map(|pool| (length(&pool.full), length(&pool.brief))).collect();
        let rows: Vec<usize> = self.rows.iter().map(|row| length(row)).collect();
        let fixed = [&self.head, &self.table, &self.after_rows, &self.others, &self.findings, &self.foot];
        let mut total = fixed.into_iter().map(|part| length(part)).sum::<usize>()
            + rows.iter().sum::<usize>()
            + lengths.iter().map(|(full, _)| full).sum::<usize>();
        let fits = |total: usize, choice: &Choice| total + length(&self.note(choice)) <= most;
        if !fits(total, choice) {
            choice.findings = false;
            total -= length(&self.findings);
        }
        // Pools with very many fields are cut before others are left out altogether.
        for (extent, instead) in [(Extent::Brief, true), (Extent::Nothing, false)] {
            for (index, (full, brief)) in lengths.iter().enumerate().rev() {
                if fits(total, choice) {
                    return;
                }
                let (before, after) = if instead { (*full, *brief) } else { (*brief, 0) };
                total = total - before + after;
                if let Some(of) = choice.extents.get_mut(index) {
                    *of = extent;
                }
            }
        }
        for row in rows.iter().rev() {
            if fits(total, choice) {
                return;
            }
            total -= row;
            choice.rows -= 1;
        }
        let last: [(&String, LeaveOut); 3] = [
            (&self.others, |choice| choice.others = false),
            (&self.after_rows, |choice| choice.after_rows = false),
            (&self.foot, |choice| choice.foot = false),
        ];
        for (part, leave_out) in last {
            if fits(total, choice) {
                return;
            }
            total -= length(part);
            leave_out(choice);
        }
    }

    /// What was left out, and how to see it; empty when nothing was.
    fn note(&self, choice: &Choice) -> String {
        let pools = |extent: Extent| {
            let named = self.names.iter().zip(&choice.extents).filter(|(_, of)| **of == extent).map(|(name, _)| *name);
            named.collect::<Vec<_>>()
        };
        let named = |pools: &[&str]| {
            let listed: Vec<String> = pools.iter().map(|name| format!("`{name}`")).collect();
            names(listed.iter().map(String::as_str), NAMES)
        };
        let (cut, gone) = (pools(Extent::Brief), pools(Extent::Nothing));
        let cut: Vec<&str> = cut
            .into_iter()
            .filter(|name| {
                let of = self.names.iter().position(|other| other == name).and_then(|index| self.pools.get(index));
                of.is_some_and(|pool| pool.full != pool.brief)
            })
            .collect();
        let mut out = Vec::new();
        if !gone.is_empty() {
            out.push(format!("the details of {} ({})", count(gone.len(), "pool"), named(&gone)));
        }
        if !cut.is_empty() {
            out.push(format!("some details of {} ({})", count(cut.len(), "pool"), named(&cut)));
        }
        let rows = self.rows.len() - choice.rows;
        if rows > 0 {
            out.push(format!("{} of the table", count(rows, "row")));
        }
        if !choice.findings && !self.findings.is_empty() {
            out.push("the warnings".to_owned());
        }
        if (!choice.others && !self.others.is_empty()) || (!choice.after_rows && !self.after_rows.trim().is_empty()) {
            out.push("what is said of nodes and pools beside these".to_owned());
        }
        if out.is_empty() {
            return String::new();
        }
        format!("**Left out for length**: {}. {} shows all of it.\n\n", out.join("; "), self.all)
    }

    fn write(&self, choice: &Choice) -> String {
        let mut text = self.head.clone();
        if choice.rows > 0 {
            text.push_str(&self.table);
            self.rows.iter().take(choice.rows).for_each(|row| text.push_str(row));
        }
        if choice.after_rows {
            text.push_str(&self.after_rows);
        } else {
            text.push('\n');
        }
        for (pool, extent) in self.pools.iter().zip(&choice.extents) {
            match extent {
                Extent::Full => text.push_str(&pool.full),
                Extent::Brief => text.push_str(&pool.brief),
                Extent::Nothing => {}
            }
        }
        if choice.others {
            text.push_str(&self.others);
        }
        if choice.findings {
            text.push_str(&self.findings);
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{}", self.note(choice));
        if choice.foot {
            text.push_str(&self.foot);
        }
        text
    }
}
