//! Explanation of a field as text of 80 columns, like `kubectl explain`, and as markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::Value as Json;
use textwrap::fill;

use super::gate::GateState;
use super::{Allowed, Explanation, InnerField, PastDefault};
use crate::layout::{hanging, within};
use crate::report::markdown::{code, prose};
use crate::report::style::{heading, quiet, warning};
use kubelet_config::verdict::rules::RuleStage;
use kubelet_config::{API_VERSION, KIND, Minor, NEWEST, OLDEST, risk};

/// The maximum width of the text, in columns.
const WIDTH: usize = 80;

/// A heading with its paragraphs.
struct Section {
    title: &'static str,
    paragraphs: Vec<String>,
}

/// Writes an explanation as text.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, explanation: &Explanation, minor: Minor, width: usize) -> io::Result<()> {
    let width = width.min(WIDTH);
    writeln!(out, "{}       {KIND}", heading("KIND:"))?;
    writeln!(out, "{}", hanging(&format!("{}    {API_VERSION}", heading("VERSION:")), 4, width))?;
    writeln!(out, "{}    {minor}", heading("KUBELET:"))?;
    if !explanation.field.is_empty() {
        let line = format!("{} {} {}", heading("FIELD:"), explanation.field, in_angle_brackets(&explanation.kind));
        writeln!(out, "\n{}", hanging(&line, 4, width))?;
    }
    for Section { title, paragraphs } in sections(explanation, minor) {
        writeln!(out, "\n{}", heading(format!("{}:", title.to_uppercase())))?;
        for paragraph in paragraphs {
            let (first, rest) = if paragraph.starts_with("- ") { ("    ", "      ") } else { ("    ", "    ") };
            let columns = within(width).initial_indent(first).subsequent_indent(rest);
            writeln!(out, "{}", fill(&paragraph, columns))?;
        }
    }
    if !explanation.fields.is_empty() {
        writeln!(out, "\n{}", heading("FIELDS:"))?;
        write_fields(out, &explanation.fields, 1, width)?;
    }
    Ok(())
}

fn write_fields(out: &mut dyn Write, fields: &[InnerField], depth: usize, width: usize) -> io::Result<()> {
    let tree = fields.iter().any(|field| !field.fields.is_empty()) || depth > 1;
    write_field_list(out, fields, depth, tree, width)
}

fn write_field_list(
    out: &mut dyn Write,
    fields: &[InnerField],
    depth: usize,
    tree: bool,
    width: usize,
) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    for field in fields {
        let deprecated = if field.deprecated { format!(" {}", warning("deprecated")) } else { String::new() };
        let line = format!("{} {}{deprecated}", field.name, in_angle_brackets(&field.kind));
        writeln!(
            out,
            "{}",
            fill(&line, within(width).initial_indent(&indent).subsequent_indent(&format!("{indent}    ")))
        )?;
        if tree {
            write_field_list(out, &field.fields, depth + 1, true, width)?;
        } else {
            let indent = "  ".repeat(depth + 1);
            let columns = within(width).initial_indent(&indent).subsequent_indent(&indent);
            writeln!(out, "{}\n", fill(first_sentence(&field.description), columns))?;
        }
    }
    Ok(())
}

/// Writes an explanation as markdown.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, explanation: &Explanation, minor: Minor) -> io::Result<()> {
    let name = if explanation.field.is_empty() { KIND } else { &explanation.field };
    writeln!(out, "# {} {}\n\nKubelet {minor}, {API_VERSION}", code(name), code(&explanation.kind))?;
    for Section { title, paragraphs } in sections(explanation, minor) {
        writeln!(out, "\n## {title}\n")?;
        for paragraph in paragraphs {
            match paragraph.strip_prefix("- ") {
                Some(item) => writeln!(out, "- {}", prose(item))?,
                None => writeln!(out, "{}  ", prose(&paragraph))?,
            }
        }
    }
    if !explanation.fields.is_empty() {
        writeln!(out, "\n## Fields\n")?;
        write_markdown_fields(out, &explanation.fields, 0)?;
    }
    Ok(())
}

fn write_markdown_fields(out: &mut dyn Write, fields: &[InnerField], depth: usize) -> io::Result<()> {
    for field in fields {
        let indent = "  ".repeat(depth);
        let deprecated = if field.deprecated { ", deprecated" } else { "" };
        let (name, kind, says) = (code(&field.name), code(&field.kind), prose(first_sentence(&field.description)));
        writeln!(out, "{indent}- {name} {kind}{deprecated}: {says}")?;
        write_markdown_fields(out, &field.fields, depth + 1)?;
    }
    Ok(())
}

fn sections(of: &Explanation, minor: Minor) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |title: &'static str, paragraphs: Vec<String>| {
        if !paragraphs.is_empty() {
            sections.push(Section { title, paragraphs });
        }
    };
    add("Description", vec![of.description.clone()]);
    add("Default", default_lines(of, minor));
    add("Allowed", allowed_lines(of));
    if let Some(history) = &of.history {
        add("History", history.history.iter().map(state_line).collect());
        let named = |gates: &[&str]| gates.iter().map(|gate| format!("- {gate}")).collect();
        add("Needs", named(&history.needs));
        add("Needed by", named(&history.needed_by));
        add("Fields that need it", history.fields_that_need_it.iter().map(|field| format!("- {field}")).collect());
    } else if !of.field.is_empty() {
        add("Kubelets", vec![versions(of.since, of.until)]);
    }
    if let Some(since) = of.deprecated_since {
        let instead = of.replaced_by.as_deref().map(|way| format!(" {way}")).unwrap_or_default();
        add("Deprecated", vec![format!("Since {since}.{instead}")]);
    }
    if let Some(gate) = &of.gate {
        let state = gate.state.as_ref().map(|state| format!(": {} in {minor}", state.summary())).unwrap_or_default();
        add("Feature gate", vec![format!("{}{state}", gate.name)]);
    }
    add(
        "Rules",
        of.rules.iter().map(|rule| format!("- {} ({}{})", rule.says, rule.id, stage_suffix(rule.stage))).collect(),
    );
    if let Some(risk) = &of.risk {
        let mut class = format!("{}: a change {}", risk.class, risk.class.means());
        if !risk.state_files.is_empty() {
            let files: Vec<_> = risk.state_files.iter().map(|file| file.as_str()).collect();
            let _ = write!(class, ", and {} removed", files.join(" and "));
        }
        let mut paragraphs = vec![format!("{class}."), risk.why.clone()];
        if !risk.source.is_empty() {
            paragraphs.push(format!("Source: {}", risk.source));
        }
        if risk::restart_resets_readiness(Some(minor), None) {
            paragraphs.push(format!(
                "The kubelet restarts for any change. Before {} that sets containers with probes to not ready until \
                 their probes succeed (KEP-4781).",
                risk::READINESS_KEPT_SINCE
            ));
        }
        add("Risk", paragraphs);
    }
    sections
}

fn default_lines(of: &Explanation, minor: Minor) -> Vec<String> {
    let mut lines: Vec<String> = of.default.iter().map(plain).collect();
    let other = |was: &&PastDefault| !(was.since..=was.until).contains(&minor);
    lines.extend(of.defaults.iter().filter(other).map(|was| {
        let value = if was.value.is_null() { "none".to_owned() } else { plain(&was.value) };
        match was.until {
            until if minor > until => format!("Up to {until}: {value}"),
            _ => format!("Since {}: {value}", was.since),
        }
    }));
    lines
}

/// A value as one line of YAML.
fn plain(value: &Json) -> String {
    match value {
        Json::String(text) if text.is_empty() => "\"\"".to_owned(),
        Json::String(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| format!("{key}: {}", plain(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

fn allowed_lines(of: &Explanation) -> Vec<String> {
    let mut lines = bounds(&of.allowed);
    if !of.allowed.keys.is_empty() {
        lines.push(format!("Keys: {}", of.allowed.keys.join(", ")));
    }
    lines.extend(of.each.iter().flat_map(bounds).map(|line| format!("Each: {line}")));
    lines
}

fn bounds(of: &Allowed) -> Vec<String> {
    let mut lines = Vec::new();
    if !of.values.is_empty() {
        lines.push(of.values.join(", "));
    }
    let least = of.minimum.map(|least| format!("{least} or more"));
    let range = match (of.minimum, of.above, of.maximum) {
        (Some(least), _, Some(greatest)) => Some(format!("{least} to {greatest}")),
        (_, Some(above), Some(greatest)) => Some(format!("above {above}, up to {greatest}")),
        (_, Some(above), None) => Some(format!("above {above}")),
        (_, _, Some(greatest)) => Some(format!("up to {greatest}")),
        _ => least,
    };
    let step = of.multiple_of.map(|step| format!(", a multiple of {step}")).unwrap_or_default();
    lines.extend(range.map(|range| format!("{range}{step}")));
    lines.extend(of.format.map(str::to_owned));
    lines
}

fn versions(since: Minor, until: Option<Minor>) -> String {
    match until {
        _ if since <= OLDEST && until.is_none() => format!("all from {OLDEST} to {NEWEST}"),
        Some(until) if since <= OLDEST => format!("up to {until}"),
        Some(until) => format!("{since} to {until}"),
        None => format!("since {since}"),
    }
}

fn state_line(state: &GateState) -> String {
    let versions = match state.until {
        NEWEST => format!("since {}", state.since),
        until if until == state.since => until.to_string(),
        until => format!("{} to {until}", state.since),
    };
    format!("{versions:<14}{}", state.summary())
}

fn stage_suffix(stage: RuleStage) -> &'static str {
    match stage {
        RuleStage::Startup => ", during startup",
        RuleStage::Load | RuleStage::Gates | RuleStage::Validate => "",
    }
}

fn in_angle_brackets(kind: &str) -> String {
    quiet(format!("<{kind}>"))
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}
