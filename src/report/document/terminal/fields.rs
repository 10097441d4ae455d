//! Changed fields and settings as text: a line each, with columns for the risk and the place.

use std::collections::BTreeMap;

use textwrap::wrap;

use super::super::{Field, Fields};
use super::Layout;
use crate::layout;
use crate::layout::within;
use crate::report::count;
use crate::report::style::{added, changed, quiet, removed, warning};
use nodecfg_contract::printable::{escaped, one_line};

/// The maximum number of listed fields of a configuration without a known predecessor.
const MAX_NEW_FIELDS: usize = 25;
/// The maximum number of listed fields whose value in effect stays the same.
const MAX_WITHOUT_EFFECT: usize = 3;
/// The width of the risk column, in columns.
const CLASS_WIDTH: usize = 7;

impl Layout {
    pub(super) fn settings(self, fields: &Fields, indent: usize) -> String {
        let mut text = String::new();
        for field in &fields.fields {
            let (line, meaning) = (escaped(&field.line()), format!("({})", field.meaning));
            let style = style_of(field);
            if indent + layout::width(&line) + 2 + layout::width(&meaning) <= self.width {
                text.push_str(&format!("{}{}  {}\n", " ".repeat(indent), style(&line), quiet(meaning)));
            } else {
                text.push_str(&self.broken(&line, indent, style));
                text.push_str(&self.quiet(&meaning, indent + 2));
            }
        }
        text
    }

    pub(super) fn fields(self, fields: &Fields, indent: usize) -> String {
        if !self.all && !fields.from_known && fields.fields.len() > MAX_NEW_FIELDS {
            let line = format!("+ {}; {} lists them", counts_by_file(&fields.fields), self.all_option);
            return self.broken(&one_line(&line), indent, |line| added(line));
        }
        let without_effect = fields.without_effect();
        let folds = !self.all && without_effect > MAX_WITHOUT_EFFECT;
        let listed: Vec<&Field> = fields.fields.iter().filter(|field| !(folds && field.no_effect)).collect();
        let mut text = self.field_lines(&listed, indent);
        if folds {
            let folded = count(without_effect, "field");
            let line = format!("= {folded} with the same value in effect; {} lists them", self.all_option);
            text.push_str(&self.quiet(&line, indent));
        }
        text
    }

    /// One field per line, with columns for risk and place, and the reason of the risk below refused fields. With
    /// `all`, below every field.
    fn field_lines(self, fields: &[&Field], indent: usize) -> String {
        let texts: Vec<(String, &Field)> = fields.iter().map(|field| (escaped(&field.line()), *field)).collect();
        let place = |field: &Field| one_line(field.place.as_deref().unwrap_or_default());
        let classes = fields.iter().any(|field| field.risk.is_some());
        let columns = fields.iter().map(|field| layout::width(&place(field))).max().unwrap_or(0)
            + if classes { CLASS_WIDTH + 2 } else { 0 };
        let most = self.width.saturating_sub(indent + 2 + columns);
        let width = texts.iter().map(|(text, _)| layout::width(text)).filter(|width| *width <= most).max().unwrap_or(4);
        let mut lines = String::new();
        for (text, field) in texts {
            let style = style_of(field);
            let is_refused = field.risk.as_ref().is_some_and(|risk| risk.refused);
            let class = field.risk.as_ref().map_or("unknown", |risk| risk.class.as_str());
            // A removed field has no place, so its risk needs no padding.
            let class = if place(field).is_empty() { class.to_owned() } else { format!("{class:CLASS_WIDTH$}  ") };
            let class = if is_refused { warning(class) } else { quiet(class) };
            let columns = format!("{}{}", if classes { class } else { String::new() }, quiet(place(field)));
            match width.checked_sub(layout::width(&text)) {
                Some(gap) if layout::width(&columns) > 0 => {
                    let margin = " ".repeat(indent);
                    lines.push_str(&format!("{margin}{}{}  {columns}\n", style(&text), " ".repeat(gap)));
                }
                _ => {
                    lines.push_str(&self.broken(&text, indent, style));
                    // A place that is wider than the page has its own line.
                    let margin = (indent + 2 + width).min(self.width.saturating_sub(layout::width(&columns)));
                    let margin = margin.max(indent + 2);
                    let below = wrap(&columns, within(self.width.saturating_sub(margin))).into_iter();
                    for line in below.filter(|line| layout::width(line) > 0) {
                        lines.push_str(&format!("{}{line}\n", " ".repeat(margin)));
                    }
                }
            }
            if let Some(risk) = field.risk.as_ref().filter(|risk| self.all || risk.refused) {
                let why = if self.all { risk.reason_and_source() } else { risk.why.clone() };
                lines.push_str(&self.quiet(&why, indent + 2));
            }
        }
        lines
    }
}

/// The color of a change.
fn style_of(field: &Field) -> fn(&str) -> String {
    match (&field.old, &field.new) {
        _ if field.no_effect => |line| quiet(line),
        (None, Some(_)) => |line| added(line),
        (Some(_), None) => |line| removed(line),
        _ => |line| changed(line),
    }
}

/// The number of fields, in total and per file that sets them.
fn counts_by_file(fields: &[Field]) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for place in fields.iter().filter_map(|field| field.place.as_deref()) {
        // A place ends with a line and a column.
        *files.entry(place.rsplitn(3, ':').last().unwrap_or(place)).or_default() += 1;
    }
    let files: Vec<String> = files.into_iter().map(|(file, number)| format!("{number} set by {file}")).collect();
    format!("{}: {}", count(fields.len(), "field"), files.join(", "))
}
