//! Reads a help text as a user does, and applies each alternative that is an edit.

use std::collections::BTreeMap;

use kubelet_config::document::Document;
use kubelet_config::finding::Finding;
use serde_json::Value;

use super::Example;
use super::tree::{remove, remove_item, set};

/// Verbs that start an instruction.
const VERBS: [&str; 14] = [
    "add", "correct", "did", "indent", "keep", "move", "name", "omit", "quote", "remove", "rename", "set", "use",
    "write",
];

/// The instructions of a help text that are edits, each with the edited example.
pub fn apply(help: &str, finding: &Finding, example: &Example) -> Vec<(String, Example)> {
    let mut verb = String::new();
    let mut edited = Vec::new();
    for instruction in instructions(help) {
        let first = instruction.split(' ').next().unwrap_or_default();
        let instruction = if VERBS.contains(&first) {
            verb = first.to_owned();
            instruction
        } else {
            format!("{verb} {instruction}")
        };
        for example in edits(&instruction, finding, example) {
            edited.push((instruction.clone(), example));
        }
    }
    edited
}

/// Splits a help text into instructions, without conditions before them.
fn instructions(help: &str) -> Vec<String> {
    let help =
        help.split_once(": ").filter(|(before, _)| before.starts_with("change it before")).map_or(help, |it| it.1);
    let clauses = help.split("; ").filter(|clause| !clause.starts_with("from "));
    let alternatives = clauses.flat_map(|clause| clause.split(", or "));
    alternatives
        .map(|part| {
            let part = part.strip_prefix("otherwise ").or_else(|| part.strip_prefix("also ")).unwrap_or(part);
            let conditional = ["to ", "on ", "if "].iter().any(|start| part.starts_with(start));
            match part.split_once(", ").filter(|_| conditional) {
                Some((_, rest)) => rest.to_owned(),
                None => part.to_owned(),
            }
        })
        .collect()
}

/// Results of one instruction: several if it offers several values.
fn edits(instruction: &str, finding: &Finding, example: &Example) -> Vec<Example> {
    let edit = Edit { finding, example };
    let instruction = instruction.replace('`', "");
    let Some((verb, rest)) = instruction.split_once(' ') else { return Vec::new() };
    let examples = || rest.split_once("such as ").map(|(_, values)| values).unwrap_or_default();
    match verb {
        "did" => {
            let name = rest.trim_start_matches("you mean ").trim_end_matches('?').trim_matches('"');
            let is_path = finding.code == "unknown-field" && name.contains('.');
            if is_path { edit.moved(name) } else { edit.replaced(name) }.into_iter().collect()
        }
        "quote" => edit.quoted().into_iter().collect(),
        "remove" => edit.removed(rest).into_iter().collect(),
        "omit" => edit.removed("it").into_iter().collect(),
        "keep" if rest.ends_with(" on") => edit.set(rest.trim_end_matches(" on"), Value::Bool(true)),
        "keep" if rest.ends_with(" off") => edit.set(rest.trim_end_matches(" off"), Value::Bool(false)),
        "move" if rest.starts_with("its entries up") => edit.moved_up(),
        "name" => edit.named(rest),
        "rename" => edit.renamed(rest),
        "add" if rest.contains(": ") => edit.added(rest),
        "indent" if rest == "with spaces" => edit.without_tabs(),
        "indent" => fewest_errors(edit.indented(rest)),
        "use" if rest.starts_with("one of ") => {
            // A key keeps its value, which fits only some keys.
            if edit.is_about_key() {
                return Vec::new();
            }
            let names = rest.trim_start_matches("one of ").split(", ");
            fewest_errors(names.filter_map(|name| edit.replaced(name.split(" (").next().unwrap_or(name))).collect())
        }
        "set" if rest.starts_with("it to ") => {
            let values = rest.trim_start_matches("it to ");
            choices(values).into_iter().flat_map(|value| edit.set_field(&value)).collect()
        }
        "set" if assignment(rest).is_some() => {
            let mut all = vec![example.clone()];
            for part in rest.split(" and ") {
                let Some((path, value)) = assignment(part) else { break };
                all = all.iter().flat_map(|example| Edit { finding, example }.set(&path, value.clone())).collect();
            }
            all
        }
        "set" | "write" if !examples().is_empty() && assignment(rest).is_none() => {
            choices(examples()).into_iter().flat_map(|value| edit.set_field(&value)).collect()
        }
        "write" if assignment(rest).is_some() && !rest.starts_with(['"', '{', '[']) => {
            let mut all = vec![example.clone()];
            for part in rest.split(" and ") {
                let Some((path, value)) = assignment(part) else { break };
                all = all.iter().flat_map(|example| Edit { finding, example }.set(&path, value.clone())).collect();
            }
            all
        }
        "write" if rest.starts_with('"') => {
            let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            edit.replaced(&rest[..end]).into_iter().collect()
        }
        "write" if rest.starts_with(['{', '[']) => edit.replaced(rest).into_iter().collect(),
        "write" => {
            let word = rest.split([' ', ',']).next().unwrap_or_default().trim_end_matches(':');
            let is_value = word.starts_with(|c: char| c.is_ascii_digit() || c == '/' || c == '-')
                || ["true", "false"].contains(&word)
                || rest == word
                || rest.ends_with("without quotes");
            if is_value { edit.replaced(word).into_iter().collect() } else { Vec::new() }
        }
        _ if instruction.starts_with("the closest allowed value is ") => {
            edit.replaced(instruction.trim_start_matches("the closest allowed value is ")).into_iter().collect()
        }
        _ if instruction.contains("the closest allowed value is ") => {
            let value = instruction.split("value is ").nth(1).unwrap_or_default();
            edit.replaced(value).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Of several examples the one with the fewest errors: the user picks one of several values.
fn fewest_errors(examples: Vec<Example>) -> Vec<Example> {
    let errors = |example: &Example| {
        example.findings().iter().filter(|one| one.severity == kubelet_config::finding::Severity::Error).count()
    };
    examples.into_iter().min_by_key(errors).into_iter().collect()
}

/// The values of `A, B or C …`: words up to the first that is no value.
fn choices(values: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = values;
    loop {
        let end = match rest.strip_prefix('"').and_then(|quoted| quoted.find('"')) {
            Some(end) => end + 2,
            None => rest.find([' ', ',', ';', ':']).unwrap_or(rest.len()),
        };
        let word = &rest[..end];
        let is_prose = ["a", "an", "the", "less", "more"].contains(&word) || word.is_empty();
        if is_prose {
            return found;
        }
        found.push(word.to_owned());
        let Some(next) = rest[end..].strip_prefix(", ").or_else(|| rest[end..].strip_prefix(" or ")) else {
            return found;
        };
        // Prose may follow the last value.
        if rest[end..].starts_with(", ") && !next.contains(" or ") {
            return found;
        }
        rest = next;
    }
}

/// Path and value of `path: value …`, or of `path to value`.
fn assignment(text: &str) -> Option<(String, Value)> {
    let (path, rest) = text.split_once(": ").or_else(|| text.split_once(" to "))?;
    if path.contains(' ') || path.starts_with(|c: char| c == '"' || c.is_ascii_digit()) {
        return None;
    }
    let end = match rest.chars().next()? {
        '{' | '[' => matching_end(rest)?,
        '"' => rest[1..].find('"')? + 2,
        _ => rest.find([' ', ',']).unwrap_or(rest.len()),
    };
    let is_prose = ["a", "an", "the"].contains(&&rest[..end]);
    (!is_prose).then(|| (path.to_owned(), value(&rest[..end])))
}

fn matching_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn value(text: &str) -> Value {
    let document = Document::parse("value", &format!("v: {text}\n")).document.expect("a value");
    document.to_json()["v"].clone()
}

/// Edits for one finding of an example.
struct Edit<'a> {
    finding: &'a Finding,
    example: &'a Example,
}

impl Edit<'_> {
    fn file(&self) -> String {
        self.finding.place.as_ref().map(|place| place.file.to_string()).unwrap_or_default()
    }

    fn with_text(&self, text: String) -> Example {
        let mut example = self.example.clone();
        example.files.insert(self.file(), text);
        example
    }

    /// Replaces the text at the finding's place.
    fn replaced(&self, text: &str) -> Option<Example> {
        let place = self.finding.place.as_ref()?;
        let whole = self.example.files.get(&*place.file)?;
        if place.len == 0 {
            return self.set_field(text).into_iter().next();
        }
        let mut whole = whole.clone();
        let old = &whole[place.offset..place.offset + place.len];
        if let Some(key) = finding_key(self.finding).filter(|key| old.starts_with('/') && old.ends_with(key.as_str())) {
            // The path of a JSON patch ends with the key.
            let edited = format!("{}{text}", &old[..old.len() - key.len()]);
            whole.replace_range(place.offset..place.offset + place.len, &edited);
            return Some(self.with_text(whole));
        }
        whole.replace_range(place.offset..place.offset + place.len, text);
        Some(self.with_text(whole))
    }

    /// Reports whether the finding's place is a key.
    fn is_about_key(&self) -> bool {
        let Some(place) = &self.finding.place else { return false };
        let text = self.example.files[&*place.file].get(place.offset..place.offset + place.len).unwrap_or_default();
        self.finding.field.as_deref().is_some_and(|field| !text.is_empty() && field.ends_with(text))
    }

    fn without_tabs(&self) -> Vec<Example> {
        vec![self.with_text(self.example.files[&self.file()].replace('\t', "  "))]
    }

    fn quoted(&self) -> Option<Example> {
        let place = self.finding.place.as_ref()?;
        let text = self.example.files.get(&*place.file)?.get(place.offset..place.offset + place.len)?.to_owned();
        self.replaced(&format!("'{text}'"))
    }

    fn set_field(&self, text: &str) -> Vec<Example> {
        let Some(field) = self.finding.field.clone() else { return Vec::new() };
        self.in_tree(|root| set(root, &field, value(text)))
    }

    fn set(&self, path: &str, value: Value) -> Vec<Example> {
        let is_gate = path.starts_with(|c: char| c.is_ascii_uppercase()) && !path.contains('.');
        let field = self.finding.field.as_deref().unwrap_or_default();
        let inside = field.strip_suffix(path).is_some_and(|parent| parent.ends_with('.'));
        let path = match path {
            _ if is_gate => format!("featureGates.{path}"),
            _ if inside => field.to_owned(),
            "operator" => format!("{field}.operator"),
            _ => path.to_owned(),
        };
        // A map such as `featureGates: {A: true}` adds its entries.
        let entries = value.as_object().cloned().filter(|_| path != "evictionHard").unwrap_or_default();
        self.in_tree(|root| {
            if entries.is_empty() {
                set(root, &path, value.clone());
            }
            for (key, value) in &entries {
                set(root, &format!("{path}.{key}"), value.clone());
            }
        })
    }

    fn moved(&self, path: &str) -> Option<Example> {
        let field = self.finding.field.clone()?;
        let moved = |root: &mut Value| {
            let value = remove(root, &field).unwrap_or_default();
            set(root, path, value);
        };
        self.in_tree(moved).into_iter().next()
    }

    fn moved_up(&self) -> Vec<Example> {
        let field = self.finding.field.clone().unwrap_or_default();
        self.in_tree(|root| {
            let entries = remove(root, &field).unwrap_or_default();
            for (key, value) in entries.as_object().cloned().unwrap_or_default() {
                root[key] = value;
            }
        })
    }

    fn removed(&self, what: &str) -> Option<Example> {
        let field = self.finding.field.clone().unwrap_or_default();
        let what = what.split([',', ':']).next().unwrap_or(what).trim_start_matches("either ");
        let own = [
            "it",
            "the line",
            "the field",
            "the entry",
            "the options",
            "the scope",
            "the list",
            "its grace",
            "one of them",
        ]
        .iter()
        .any(|own| what == *own || what.starts_with(&format!("{own} ")));
        let place = self.finding.place.as_ref()?;
        if own && self.finding.code == "duplicate-key" {
            let lines = self.example.files[&*place.file].lines().enumerate();
            return Some(self.with_text(
                lines.filter(|(at, _)| at + 1 != place.line).map(|(_, line)| format!("{line}\n")).collect(),
            ));
        }
        if own && self.finding.field.is_none() && place.len == 0 {
            let mut example = self.example.clone();
            example.files.remove(&*place.file);
            return Some(example);
        }
        if own && self.finding.field.is_none() {
            return self.replaced("null");
        }
        let names: Vec<&str> = what.split(" and ").filter_map(|name| name.split(' ').next()).collect();
        let mut changed = false;
        let edited = self.in_tree(|root| {
            changed = own && remove(root, &field).is_some();
            for name in names.iter().filter(|_| !own) {
                let gate = format!("featureGates.{name}");
                changed |= remove(root, name).is_some() || remove(root, &gate).is_some() || remove_item(root, name);
            }
        });
        edited.into_iter().next().filter(|_| changed)
    }

    /// `it to NAME` or `the folder to FOLDER`.
    fn renamed(&self, rest: &str) -> Vec<Example> {
        let Some((what, name)) = rest.split_once(" to ") else { return Vec::new() };
        let mut example = self.example.clone();
        let file = self.file();
        let folder = file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let moved = |path: &str| match (&folder, what) {
            (Some(folder), "the folder") => path.strip_prefix(folder.as_str()).map(|rest| format!("{name}{rest}")),
            (Some(folder), _) => (path == file).then(|| format!("{folder}/{name}")),
            (None, _) => (path == file).then(|| name.to_owned()),
        };
        let files = std::mem::take(&mut example.files);
        example.files = files.into_iter().map(|(path, text)| (moved(&path).unwrap_or(path), text)).collect();
        vec![example]
    }

    /// `it in a pool.yaml: spec.kubelet.base: PATH` or `it in pool.yaml under spec.kubelet.patches`.
    fn named(&self, rest: &str) -> Vec<Example> {
        let mut example = self.example.clone();
        let pool = example.files.keys().find(|path| path.ends_with("/pool.yaml")).cloned();
        let pool = pool.unwrap_or_else(|| "pools/gpu/pool.yaml".to_owned());
        let text =
            example.files.get(&pool).cloned().unwrap_or_else(|| {
                "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\n".to_owned()
            });
        let mut root = Document::parse("pool.yaml", &text).document.expect("a pool").to_json();
        match rest.split_once("base: ") {
            Some((_, base)) => set(&mut root, "spec.kubelet.base", Value::from(base)),
            None => {
                let file = self.file();
                set(&mut root, "spec.kubelet.patches", Value::from(vec![file.rsplit('/').next().unwrap_or_default()]));
            }
        }
        example.files.insert(pool, format!("# edited\n{root}\n"));
        vec![example]
    }

    /// `k: v, k: v to path`.
    fn added(&self, rest: &str) -> Vec<Example> {
        let Some((entries, path)) = rest.split_once(" to ") else { return Vec::new() };
        let entries: BTreeMap<String, Value> = entries
            .split(", ")
            .filter_map(|entry| entry.split_once(": "))
            .map(|(k, v)| (k.to_owned(), value(v)))
            .collect();
        let path = path.split([' ', ',']).next().unwrap_or_default();
        self.in_tree(|root| {
            for (key, value) in &entries {
                set(root, &format!("{path}.{key}"), value.clone());
            }
        })
    }

    /// `it by N` or `it below KEY`: indents the line of the finding and the more indented lines after it.
    fn indented(&self, rest: &str) -> Vec<Example> {
        let Some(place) = &self.finding.place else { return Vec::new() };
        let depths: Vec<usize> = match rest.strip_prefix("it by ") {
            Some(depths) => depths.split([' ', ',']).filter_map(|depth| depth.parse().ok()).collect(),
            None if rest.starts_with("it below ") => vec![2],
            None => return Vec::new(),
        };
        let depth_of = |line: &str| line.len() - line.trim_start().len();
        let indented = |depth: usize| {
            let lines: Vec<&str> = self.example.files[&*place.file].lines().collect();
            let old = depth_of(lines[place.line - 1]);
            let mut inside = false;
            let edited = lines.iter().enumerate().map(|(at, line)| {
                inside = at + 1 == place.line || (inside && depth_of(line) > old);
                if inside {
                    format!("{}{}\n", " ".repeat(depth_of(line) - old + depth), line.trim_start())
                } else {
                    format!("{line}\n")
                }
            });
            self.with_text(edited.collect())
        };
        depths.into_iter().map(indented).collect()
    }

    /// Edits the tree of the finding's file.
    fn in_tree(&self, edit: impl FnOnce(&mut Value)) -> Vec<Example> {
        let Some(text) = self.example.files.get(&self.file()) else { return Vec::new() };
        let Some(document) = Document::parse("file", text).document else { return Vec::new() };
        let mut root = document.to_json();
        edit(&mut root);
        // A comment at the start prevents reading the braces as JSON.
        vec![self.with_text(format!("# edited\n{root}\n"))]
    }
}

/// The last key of the finding's field.
fn finding_key(finding: &Finding) -> Option<String> {
    finding.field.as_deref()?.rsplit('.').next().map(str::to_owned)
}
