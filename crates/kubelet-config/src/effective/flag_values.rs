//! Values of flags: the types of the table of flags, and their syntax (pflag, `k8s.io/component-base/cli/flag`,
//! `pkg/util/flag`).

use serde_json::{Map, Value as Json, json};

use crate::values::{csv, duration, label, quantity, strconv};

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
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

impl Kind {
    /// A phrase for messages.
    pub(super) fn phrase(self) -> &'static str {
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
    pub(super) fn read(self, text: &str, before: Option<&Json>) -> Option<Option<Json>> {
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
            Self::List if text.is_empty() => after(before, Vec::new()),
            Self::List => after(before, csv::cells(text)?.into_iter().map(Json::String).collect()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_quotes_as_in_csv() {
        let items = |text: &str| Kind::List.read(text, None)?.map(|items| items.to_string());
        assert_eq!(items(r#""a,b",c"#).as_deref(), Some(r#"["a,b","c"]"#));
        assert_eq!(items(r#""a""b""#).as_deref(), Some(r#"["a\"b"]"#));
        assert_eq!(items("a,").as_deref(), Some(r#"["a",""]"#));
        for bad in [r#""a"#, r#"a"b"#, r#""a"b"#] {
            assert_eq!(items(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_have_the_prefixes_of_go() {
        for (text, number) in [
            ("-7", Some(-7)),
            ("+7", Some(7)),
            ("0", Some(0)),
            ("017", Some(15)),
            ("0o17", Some(15)),
            ("0b11", Some(3)),
            ("-0x_f", Some(-15)),
            ("1_000", None),
            ("08", None),
            ("", None),
            ("-", None),
            ("--5", None),
            ("9223372036854775808", None),
        ] {
            assert_eq!(whole(text), number, "{text}");
        }
    }
}
