//! Length limit of markdown. Omits whole parts, the least important first, and lists them in a note.

use crate::report::{count, names};

/// The maximum number of names of omitted sections.
const MAX_NAMES: usize = 3;

/// A report in parts, in order.
pub(super) struct Parts {
    /// The result. Never omitted.
    pub(super) head: String,
    /// The content.
    pub(super) parts: Vec<Part>,
    /// What explains nodecfg.
    pub(super) about: String,
    /// The command that shows the omitted parts, as code.
    pub(super) whole: String,
}

/// A part of a report.
pub(super) enum Part {
    /// A section that is omitted first: its title and its text.
    Minor(String, String),
    /// A section, most important first, in full and in brief.
    Section { title: String, number: usize, full: String, brief: String },
    /// A table that sums up sections.
    Rows { head: String, rows: Vec<String> },
    /// Items.
    Note(String),
    /// What is never omitted.
    Fixed(String),
}

/// How many parts of each kind are omitted, from the end.
#[derive(Clone, Copy)]
struct Cuts {
    minor: usize,
    /// The number of sections in brief form.
    brief: usize,
    sections: usize,
    rows: usize,
    notes: usize,
    about: bool,
}

/// The length in UTF-16 units, which is never less than the number of characters.
pub(in crate::report) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Parts {
    /// The report within `most` UTF-16 units.
    pub(super) fn within(&self, most: Option<usize>) -> String {
        let most = most.unwrap_or(usize::MAX);
        let all: Vec<usize> = (0..=self.cuts(usize::MAX).total()).collect();
        let needed = all.partition_point(|cuts| length(&self.write(self.cuts(*cuts))) > most);
        self.write(self.cuts(needed))
    }

    fn number(&self, is: fn(&Part) -> bool) -> usize {
        self.parts.iter().filter(|part| is(part)).count()
    }

    /// The first `left` cuts. Shortens sections before it omits sections.
    fn cuts(&self, mut left: usize) -> Cuts {
        let mut take = |most: usize| {
            let taken = left.min(most);
            left -= taken;
            taken
        };
        let sections = self.number(|part| matches!(part, Part::Section { .. }));
        Cuts {
            minor: take(self.number(|part| matches!(part, Part::Minor(..)))),
            brief: take(sections),
            sections: take(sections),
            rows: take(self.rows()),
            notes: take(self.number(|part| matches!(part, Part::Note(_)))),
            about: take(1) > 0,
        }
    }

    fn rows(&self) -> usize {
        self.parts.iter().map(|part| if let Part::Rows { rows, .. } = part { rows.len() } else { 0 }).sum()
    }

    fn write(&self, cuts: Cuts) -> String {
        let kept = |kind: fn(&Part) -> bool, cut: usize| self.number(kind) - cut;
        let mut minor = kept(|part| matches!(part, Part::Minor(..)), cuts.minor);
        let mut full = kept(|part| matches!(part, Part::Section { .. }), cuts.brief);
        let mut sections = kept(|part| matches!(part, Part::Section { .. }), cuts.sections);
        let mut notes = kept(|part| matches!(part, Part::Note(_)), cuts.notes);
        let mut left = self.rows() - cuts.rows;
        let mut omitted = Omitted::default();
        let mut text = self.head.clone();
        for part in &self.parts {
            match part {
                Part::Fixed(shown) => text.push_str(shown),
                Part::Minor(title, shown) => match used(&mut minor) {
                    true => text.push_str(shown),
                    false => omitted.minor.push(title),
                },
                Part::Note(shown) => match used(&mut notes) {
                    true => text.push_str(shown),
                    false => omitted.notes = true,
                },
                Part::Rows { head, rows } => {
                    let shown = left.min(rows.len());
                    left -= shown;
                    if shown > 0 {
                        text.push_str(head);
                        text.extend(rows.iter().take(shown).map(String::as_str));
                        text.push('\n');
                    }
                }
                Part::Section { title, number, full: whole, brief } => match (used(&mut full), used(&mut sections)) {
                    (true, _) => text.push_str(whole),
                    (false, true) => {
                        text.push_str(brief);
                        if whole != brief {
                            omitted.shortened.push((title, *number));
                        }
                    }
                    (false, false) => omitted.sections.push((title, *number)),
                },
            }
        }
        text.push_str(&omitted.note(cuts.rows, &self.whole));
        if !cuts.about {
            text.push_str(&self.about);
        }
        text
    }
}

/// Takes one of `left`, if any is.
fn used(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

impl Cuts {
    fn total(self) -> usize {
        self.minor + self.brief + self.sections + self.rows + self.notes + usize::from(self.about)
    }
}

/// What a report leaves out.
#[derive(Default)]
struct Omitted<'a> {
    minor: Vec<&'a str>,
    /// The titles of sections, and the number of pools that each is about.
    sections: Vec<(&'a str, usize)>,
    shortened: Vec<(&'a str, usize)>,
    notes: bool,
}

impl Omitted<'_> {
    /// A note that lists the omitted parts. Empty if nothing was omitted.
    fn note(&self, rows: usize, all: &str) -> String {
        let named = |sections: &[(&str, usize)]| {
            let number = sections.iter().map(|(_, number)| number).sum();
            format!("{} ({})", count(number, "pool"), names(sections.iter().map(|(title, _)| *title), MAX_NAMES))
        };
        let mut out = Vec::new();
        if !self.sections.is_empty() {
            out.push(format!("the details of {}", named(&self.sections)));
        }
        if !self.shortened.is_empty() {
            out.push(format!("some details of {}", named(&self.shortened)));
        }
        if rows > 0 {
            out.push(format!("{} of the table", count(rows, "row")));
        }
        out.extend(self.minor.iter().map(|title| (*title).to_owned()));
        if self.notes {
            out.push("notes on other nodes and pools".to_owned());
        }
        let whole = if all.is_empty() { String::new() } else { format!(" See all with {all}.") };
        if out.is_empty() { String::new() } else { format!("**Shortened**, without {}.{whole}\n\n", out.join("; ")) }
    }
}
