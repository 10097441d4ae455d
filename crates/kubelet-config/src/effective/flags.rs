//! The flags of a kubelet, from the table `crates/kubelet-config/data/flags.csv`: flag, field, type, how its value
//! combines with that of the files, versions and source. Flags without a field change nothing in the configuration.
//!
//! The kubelet parses its command line once more over the configuration of its files, without setting defaults again
//! (`cmd/kubelet/app/server.go`, `kubeletConfigFlagPrecedence`). So a flag may set zero. A flag that is given several
//! times adds to its own list or map, not to that of the files, unless its row says `merges`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json, json};

use super::traced::{default_place, set, tree};
use super::{Origin, Refused};
use crate::document::{Mapping, Node, Value};
use crate::finding::Place;
use crate::{Minor, duration, fields, label, quantity, strconv, table};

static TEXT: &str = include_str!("../../data/flags.csv");
static TABLE: LazyLock<BTreeMap<String, Flag>> = LazyLock::new(|| {
    table::rows(TEXT).filter_map(|cells| flag(&cells)).map(|flag| (flag.name.clone(), flag)).collect()
});

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int32,
    Int64,
    /// A log level.
    Level,
    Text,
    Ip,
    Duration,
    Quantity,
    /// `a,b`.
    List,
    /// `a=b,c=d`.
    Pairs,
    /// `a=b`, once for each flag.
    Pair,
    /// `a<b,c<d`.
    Thresholds,
    /// `A=true,B=false`.
    Switches,
    /// `a:b,a:c`.
    Headers,
    /// `key=value:Effect`.
    Taints,
    /// `0:memory=1Gi;1:memory=2Gi`.
    Memory,
    /// `pattern=2,other=3`.
    Levels,
    /// A boolean that has no effect if it is false.
    SwitchOn,
}

/// One flag.
#[derive(Debug, Clone, PartialEq)]
struct Flag {
    name: String,
    /// The field that the flag sets.
    field: Option<&'static fields::Field>,
    kind: Kind,
    /// Whether the value is added to that of the files.
    merges: bool,
    since: Option<Minor>,
    until: Option<Minor>,
}

impl Flag {
    fn is_known_to(&self, minor: Minor) -> bool {
        self.since.is_none_or(|since| since <= minor) && self.until.is_none_or(|until| minor <= until)
    }
}

/// The value of a flag of the command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    flag: &'static Flag,
    value: Json,
}

impl Given {
    /// The flag as on a command line: `--max-pods`, or `-v`.
    pub(super) fn origin(&self) -> String {
        written(&self.flag.name)
    }
}

fn written(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// Parses the arguments of a command line as pflag does. Returns the flags that set fields of this version.
pub(super) fn parse(arguments: &[String], minor: Minor) -> Result<Vec<Given>, Refused> {
    let mut given: BTreeMap<&str, Given> = BTreeMap::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) = split(argument)?;
        let name = name.replace('_', "-");
        let Some((_, flag)) = TABLE.get_key_value(&name).filter(|(_, flag)| flag.is_known_to(minor)) else {
            let reason = match name.as_str() {
                "help" | "h" | "version" => "the kubelet prints a text and exits".to_owned(),
                _ => format!("kubelet {minor} has no such flag"),
            };
            return Err(refused(&written(&name), &reason));
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => value.to_owned(),
            (None, Kind::Bool | Kind::SwitchOn) => "true".to_owned(),
            (None, _) => match rest.next() {
                Some(value) => value.clone(),
                None => return Err(refused(&written(&name), "the flag needs a value")),
            },
        };
        let before = given.get(name.as_str()).map(|given| &given.value);
        let read = flag.kind.read(&value, before);
        // The value is not quoted: it may be a password.
        let value =
            read.ok_or_else(|| refused(&written(&name), &format!("the value is not {}", flag.kind.phrase())))?;
        if let Some(value) = value {
            given.insert(&flag.name, Given { flag, value });
        }
    }
    let has_field = |given: &Given| given.flag.field.is_some_and(|field| field.is_known_to(minor));
    Ok(given.into_values().filter(has_field).collect())
}

/// Splits an argument into the name of a flag and its value.
fn split(argument: &str) -> Result<(&str, Option<&str>), Refused> {
    if let Some(long) = argument.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return match name.chars().next() {
            None | Some('-') => Err(refused("the command line", "an argument is no flag")),
            Some(_) => Ok((name, value)),
        };
    }
    // -v is the only short flag beside -h.
    match argument.strip_prefix('-').and_then(|short| Some((short.get(..1)?, short.get(1..)?))) {
        Some((name @ ("v" | "h"), rest)) => {
            let rest = rest.strip_prefix('=').unwrap_or(rest);
            Ok((name, Some(rest).filter(|rest| !rest.is_empty())))
        }
        Some((name, _)) if name != "-" => Err(refused(&format!("-{name}"), "the kubelet has no such flag")),
        _ => Err(refused("the command line", "it has an argument that is no flag")),
    }
}

fn refused(flag: &str, reason: &str) -> Refused {
    Refused::new(Origin::Flag(flag.to_owned()), reason)
}

/// Sets the fields of flags in a configuration.
pub(super) fn over(mut root: Node, flags: &[Given]) -> Node {
    for given in flags {
        let Some(field) = given.flag.field else { continue };
        let place = Place::whole_file(given.origin());
        let value = tree(&given.value, &place);
        let old = field.path.split('.').try_fold(&root, |node, name| node.get(name));
        let value = match (&value.value, old.map(|old| &old.value)) {
            (Value::Mapping(new), Some(Value::Mapping(old))) if given.flag.merges => {
                let mut all: Mapping = old.clone();
                all.extend(new.clone());
                Node { value: Value::Mapping(all), place }
            }
            (Value::Sequence(new), Some(Value::Sequence(old))) if given.flag.merges => {
                Node { value: Value::Sequence([old.clone(), new.clone()].concat()), place }
            }
            _ => value,
        };
        set(&mut root, &field.path, value);
    }
    // Kubelets parse their flags again after the files, and these flags start as false.
    for path in ["logging.options.text.splitStream", "logging.options.json.splitStream"] {
        let node = path.split('.').try_fold(&root, |node, name| node.get(name));
        if node.is_some_and(|node| !node.place.file.starts_with('-')) {
            set(&mut root, path, tree(&json!(false), &default_place()));
        }
    }
    root
}

impl Kind {
    fn phrase(self) -> &'static str {
        match self {
            Self::Bool | Self::SwitchOn => "a boolean",
            Self::Int32 | Self::Int64 | Self::Level => "a whole number in its range",
            Self::Text => "a text",
            Self::Ip => "an IP address",
            Self::Duration => "a duration such as 30s",
            Self::Quantity => "a quantity such as 100Mi",
            Self::List => "a list such as a,b",
            Self::Pairs => "a list of pairs such as a=b,c=d",
            Self::Pair => "a pair such as a=b",
            Self::Thresholds => "a list of thresholds such as memory.available<100Mi",
            Self::Switches => "a list of booleans such as A=true,B=false",
            Self::Headers => "a list of headers such as a:b,c:d",
            Self::Taints => "a list of taints such as key=value:NoSchedule",
            Self::Memory => "a list of reservations such as 0:memory=1Gi",
            Self::Levels => "a list of levels such as file=2",
        }
    }

    /// Reads a value. `before`: the value of the same flag so far. `Some(None)`: the value has no effect.
    fn read(self, text: &str, before: Option<&Json>) -> Option<Option<Json>> {
        Some(Some(match self {
            Self::Bool => json!(strconv::boolean(text)?),
            Self::SwitchOn => return Some(strconv::boolean(text)?.then_some(Json::Bool(true))),
            Self::Int32 => json!(i32::try_from(whole(text)?).ok()?),
            Self::Int64 => json!(whole(text)?),
            Self::Level => json!(strconv::unsigned(text).filter(|level| *level <= i32::MAX as u64)?),
            Self::Text => json!(text),
            Self::Ip if text.is_empty() => return Some(None),
            Self::Ip => json!(text.parse::<std::net::IpAddr>().ok().map(|_| text)?),
            Self::Duration => json!(duration::go(duration::nanoseconds(text).ok()?)),
            Self::Quantity => json!(quantity::is_quantity(text).then_some(text)?),
            Self::List => after(before, list(text)?),
            Self::Pairs => pairs(before, text.split(','), '=', |value| Some(json!(value)))?,
            Self::Pair => pairs(before, [text], '=', |value| Some(json!(value)))?,
            Self::Thresholds => pairs(before, text.split(','), '<', |value| Some(json!(value)))?,
            Self::Switches => pairs(before, text.split(','), '=', |value| Some(json!(strconv::boolean(value)?)))?,
            Self::Headers => headers(before, text)?,
            // Each flag replaces the one before.
            Self::Taints => taints(text)?,
            Self::Memory if text.is_empty() => return Some(None),
            Self::Memory => after(before, text.split(';').map(reservation).collect::<Option<_>>()?),
            Self::Levels => {
                after(before, text.split(',').filter(|part| !part.is_empty()).map(level).collect::<Option<_>>()?)
            }
        }))
    }
}

fn after(before: Option<&Json>, mut list: Vec<Json>) -> Json {
    let mut all = before.and_then(Json::as_array).cloned().unwrap_or_default();
    all.append(&mut list);
    Json::Array(all)
}

/// Parses a whole number as Go's `strconv.ParseInt` does with base 0.
fn whole(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("", text.get(1..)?),
        _ => ("", text),
    };
    let lower = rest.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some(two) if two.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    // An underscore stands between two digits, and only after a prefix.
    let prefixed = base != 10;
    if digits.contains("__") || digits.ends_with('_') || (!prefixed && digits.contains('_')) {
        return None;
    }
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), base).ok()
}

/// Parses a line of comma-separated values, with quotes as in CSV (pflag's `StringSlice`).
fn list(text: &str) -> Option<Vec<Json>> {
    let (mut items, mut rest) = (Vec::new(), text);
    if text.is_empty() {
        return Some(items);
    }
    loop {
        let (item, after) = match rest.strip_prefix('"') {
            None => {
                let (item, after) = rest.split_once(',').map_or((rest, None), |(item, after)| (item, Some(after)));
                (item.to_owned(), after)
            }
            Some(quoted) => {
                let mut end = quoted.find('"')?;
                while quoted.get(end + 1..)?.starts_with('"') {
                    end = end + 2 + quoted.get(end + 2..)?.find('"')?;
                }
                let after = quoted.get(end + 1..)?;
                let after = if after.is_empty() { None } else { Some(after.strip_prefix(',')?) };
                (quoted.get(..end)?.replace("\"\"", "\""), after)
            }
        };
        if !rest.starts_with('"') && item.contains('"') {
            return None;
        }
        items.push(Json::String(item));
        match after {
            None => return Some(items),
            Some(after) => rest = after,
        }
    }
}

fn pairs<'t>(
    before: Option<&Json>,
    parts: impl IntoIterator<Item = &'t str>,
    between: char,
    value: impl Fn(&str) -> Option<Json>,
) -> Option<Json> {
    let mut map = before.and_then(Json::as_object).cloned().unwrap_or_default();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let (key, text) = part.split_once(between)?;
        map.insert(key.trim().to_owned(), value(text.trim())?);
    }
    Some(Json::Object(map))
}

fn headers(before: Option<&Json>, text: &str) -> Option<Json> {
    let mut map = before.and_then(Json::as_object).cloned().unwrap_or_default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':')?;
        let values = map.entry(key.trim()).or_insert_with(|| json!([]));
        values.as_array_mut()?.push(json!(value.trim()));
    }
    Some(Json::Object(map))
}

/// Parses taints as `taintutils.ParseTaints` does. A taint that ends with a minus is a removal, which has no effect.
fn taints(text: &str) -> Option<Json> {
    let mut taints: Vec<Json> = Vec::new();
    for part in text.split(',').filter(|part| !part.ends_with('-') && !text.is_empty()) {
        let (pair, effect) = part.split_once(':')?;
        let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
        let is_valid = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
            && label::check_label_key(key).is_ok()
            && value.is_none_or(|value| label::check_label_value(value).is_ok());
        let same = |other: &Json| other["key"] == key && other["effect"] == effect;
        if !is_valid || taints.iter().any(same) {
            return None;
        }
        let mut taint = Map::from_iter([("key".to_owned(), json!(key)), ("effect".to_owned(), json!(effect))]);
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            taint.insert("value".to_owned(), json!(value));
        }
        taints.push(Json::Object(taint));
    }
    Some(Json::Array(taints))
}

fn reservation(text: &str) -> Option<Json> {
    let (node, limits) = text.split_once(':')?;
    let node = i32::try_from(strconv::integer(node)?).ok()?;
    let mut map = Map::new();
    for limit in limits.split(',') {
        let (name, amount) = limit.split_once('=')?;
        if (name != "memory" && !name.starts_with("hugepages-")) || !quantity::is_quantity(amount) {
            return None;
        }
        map.insert(name.to_owned(), json!(amount));
    }
    Some(json!({"numaNode": node, "limits": map}))
}

fn level(text: &str) -> Option<Json> {
    let (pattern, level) = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty())?;
    Some(
        json!({"filePattern": pattern, "verbosity": strconv::unsigned(level).filter(|level| *level <= i32::MAX as u64)?}),
    )
}

fn flag(cells: &[String]) -> Option<Flag> {
    let [name, field, kind, combines, since, until, _source] = cells else { return None };
    Some(Flag {
        name: name.clone(),
        field: if field.is_empty() { None } else { Some(fields::lookup(field)?) },
        kind: kind_of(kind)?,
        merges: match combines.as_str() {
            "merges" => true,
            "replaces" => false,
            "" if field.is_empty() => false,
            _ => return None,
        },
        since: table::minor(since),
        until: table::minor(until),
    })
}

fn kind_of(name: &str) -> Option<Kind> {
    Some(match name {
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "level" => Kind::Level,
        "text" => Kind::Text,
        "ip" => Kind::Ip,
        "duration" => Kind::Duration,
        "quantity" => Kind::Quantity,
        "list" => Kind::List,
        "pairs" => Kind::Pairs,
        "pair" => Kind::Pair,
        "thresholds" => Kind::Thresholds,
        "switches" => Kind::Switches,
        "headers" => Kind::Headers,
        "taints" => Kind::Taints,
        "memory" => Kind::Memory,
        "levels" => Kind::Levels,
        "switch-on" => Kind::SwitchOn,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_flags_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("flag,field,type,combines,since,until,source"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads, and no flag appears twice");
        assert!(TEXT.lines().skip(1).is_sorted_by_key(|line| line.split(',').next()), "the table is sorted");
        for cells in table::rows(TEXT) {
            assert!(cells[6].len() > 5, "{} has a source", cells[0]);
            for minor in [&cells[4], &cells[5]] {
                assert!(minor.is_empty() || table::minor(minor).is_some(), "{}", cells[0]);
            }
        }
    }
}
