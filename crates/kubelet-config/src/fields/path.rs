//! Field names as users write them: `evictionHard`, `logging.options.json`, `registerWithTaints[0].key`,
//! `registerWithTaints.key`, `evictionHard.memory.available`. The kind may precede the name, as in `kubectl explain`.

use crate::KIND;
use crate::fields::{self, Field};
use crate::finding::nearest;

/// The target of a name.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The whole configuration.
    Root,
    /// A field of the table.
    Field(&'static Field),
    /// One key of a map with free keys: the field of the map's values, and the key.
    Key(&'static Field, String),
}

/// Error for a name without a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    /// The unknown part of the name.
    pub name: String,
    /// The parent of the unknown part; empty for the whole configuration.
    pub parent: String,
    /// A similar full name.
    pub near: Option<String>,
}

/// Finds the target of a name in the fields of all versions.
///
/// # Errors
/// The name matches no field.
pub fn find(text: &str) -> Result<Target, NotFound> {
    resolve(text.trim()).map_err(|(name, parent)| not_found(name, parent))
}

/// Finds the target of a name, as [`find`] does. The error is the unknown part, and the path of the field above it.
pub(crate) fn resolve(text: &str) -> Result<Target, (&str, &'static str)> {
    let (head, rest) = text.split_once('.').unwrap_or((text, ""));
    let mut rest = if head.eq_ignore_ascii_case(KIND) { rest } else { text };
    let mut at: Option<&'static Field> = None;
    loop {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let Some(field) = at else {
            if rest.is_empty() {
                return Ok(Target::Root);
            }
            (at, rest) = named("", rest)?;
            continue;
        };
        if rest.is_empty() {
            return Ok(Target::Field(field));
        }
        if let Some(items) = fields::items(&field.path) {
            // With or without brackets: the name after a list can only belong to the list's items.
            at = Some(items);
            rest = rest.strip_prefix('[').map_or(rest, |rest| rest.split_once(']').map_or("", |(_, after)| after));
        } else if let Some(values) = fields::lookup(&format!("{}{{}}", field.path)) {
            match rest.strip_prefix("{}") {
                Some(after) => (at, rest) = (Some(values), after),
                None => return Ok(Target::Key(values, key(rest).to_owned())),
            }
        } else {
            (at, rest) = named(&field.path, rest)?;
        }
    }
}

/// Splits off the leading field of a name, and returns the rest.
fn named<'t>(
    parent: &'static str,
    text: &'t str,
) -> Result<(Option<&'static Field>, &'t str), (&'t str, &'static str)> {
    let (name, after) = text.split_at(text.find(['.', '[', '{']).unwrap_or(text.len()));
    match fields::child(parent, name) {
        Some(field) => Ok((Some(field), after)),
        None => Err((name, parent)),
    }
}

/// Returns the key of a map: the whole text including dots, or the text inside brackets and quotes.
fn key(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or(bracketed).trim_matches(['"', '\'']),
        None => text.split('[').next().unwrap_or(text),
    }
}

/// Formats a path of the table as users write it: without `[]` and `{}`.
#[must_use]
pub fn plain(path: &str) -> String {
    path.replace("[]", "").replace("{}", "")
}

fn not_found(name: &str, parent: &str) -> NotFound {
    let children = fields::children(parent).iter().map(|field| field.name());
    let beside = nearest(name, children)
        .map(|near| if parent.is_empty() { near.to_owned() } else { format!("{}.{near}", plain(parent)) });
    let elsewhere = || {
        let mut named = fields::all()
            .filter(|field| field.name().eq_ignore_ascii_case(name) && !field.name().ends_with([']', '}']));
        named.next().map(|field| plain(&field.path))
    };
    let anywhere = || {
        let names = fields::all().map(Field::name);
        let near = nearest(name, names.filter(|last| !last.ends_with([']', '}'])))?;
        fields::all().find(|field| field.name() == near).map(|field| plain(&field.path))
    };
    let near = beside.or_else(elsewhere).or_else(|| if parent.is_empty() { anywhere() } else { None });
    NotFound { name: name.to_owned(), parent: plain(parent), near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        match find(text) {
            Ok(Target::Root) => "the whole".to_owned(),
            Ok(Target::Field(field)) => field.path.clone(),
            Ok(Target::Key(field, key)) => format!("{} at {key}", field.path),
            Err(NotFound { name, parent, near }) => format!("no {name} in {parent}: {near:?}"),
        }
    }

    #[test]
    fn finds_names_as_users_write_them() {
        for (text, path) in [
            ("", "the whole"),
            ("kubeletconfiguration", "the whole"),
            ("KubeletConfiguration.", "the whole"),
            ("maxPods", "maxPods"),
            (" kubeletconfiguration.maxPods ", "maxPods"),
            ("logging.options.json", "logging.options.json"),
            ("registerWithTaints", "registerWithTaints"),
            ("registerWithTaints[]", "registerWithTaints[]"),
            ("registerWithTaints[3].key", "registerWithTaints[].key"),
            ("registerWithTaints[].key", "registerWithTaints[].key"),
            ("registerWithTaints.key", "registerWithTaints[].key"),
            ("reservedMemory.limits", "reservedMemory[].limits"),
            ("reservedMemory.limits.memory", "reservedMemory[].limits{} at memory"),
            ("reservedMemory[0].limits.hugepages-2Mi", "reservedMemory[].limits{} at hugepages-2Mi"),
            ("evictionHard", "evictionHard"),
            ("evictionHard{}", "evictionHard{}"),
            ("evictionHard.memory.available", "evictionHard{} at memory.available"),
            ("evictionHard[\"memory.available\"]", "evictionHard{} at memory.available"),
            ("featureGates.NodeSwap", "featureGates{} at NodeSwap"),
            ("staticPodURLHeader.X-Token", "staticPodURLHeader{} at X-Token"),
            ("staticPodURLHeader.X-Token[0]", "staticPodURLHeader{} at X-Token"),
            ("clusterDNS[0]", "clusterDNS[]"),
            ("evictionHrad", "no evictionHrad in : Some(\"evictionHard\")"),
            ("MaxPods", "no MaxPods in : Some(\"maxPods\")"),
            ("logging.option", "no option in logging: Some(\"logging.options\")"),
            ("clientCAFile", "no clientCAFile in : Some(\"authentication.x509.clientCAFile\")"),
            ("clientCAfiles", "no clientCAfiles in : Some(\"authentication.x509.clientCAFile\")"),
            ("maxPods.more", "no more in maxPods: None"),
            ("nothingLikeIt", "no nothingLikeIt in : None"),
            ("registerWithTaints.keys", "no keys in registerWithTaints: Some(\"registerWithTaints.key\")"),
        ] {
            assert_eq!(found(text), path, "{text:?}");
        }
    }

    #[test]
    fn finds_every_field_by_path_with_and_without_brackets() {
        for field in fields::all() {
            assert_eq!(found(&field.path).split(" at ").next(), Some(field.path.as_str()));
            if !field.path.contains(['[', '{']) || field.path.ends_with(|c: char| c.is_alphabetic()) {
                assert_eq!(found(&plain(&field.path)), field.path);
            }
        }
    }
}
