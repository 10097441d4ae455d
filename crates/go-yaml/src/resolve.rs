//! Resolution of untyped scalars as in yaml.v2 (its `resolve.go`), and of keys that are not text as in
//! sigs.k8s.io/yaml.
//!
//! yaml.v2 reads YAML 1.1's booleans and octal numbers, but neither base-60 numbers nor timestamps: `1:30` and
//! `2001-01-01` are text.

use crate::{Reading, Scalar};

/// The prefix of YAML's own tags, abbreviated `!!`.
pub(crate) const CORE: &str = "tag:yaml.org,2002:";

/// Resolves a plain scalar without a tag.
pub(crate) fn resolve(text: &str) -> Reading<'_> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Reading::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Reading::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Reading::Null,
        _ => {}
    }
    if let Some(value) = special_float(text) {
        return Reading::Float(value);
    }
    let number = match text.chars().next() {
        Some('.') => dotted(text).map(Reading::Float),
        Some('+' | '-' | '0'..='9') => signed(&text.replace('_', "")),
        _ => None,
    };
    number.unwrap_or(Reading::Text(text))
}

/// Parses a number that starts with a digit or a sign, after removal of underscores.
fn signed(text: &str) -> Option<Reading<'static>> {
    if let Some(value) = go_integer(text) {
        return Some(Reading::Int(value));
    }
    if let Some(value) = decimal_float(text).filter(|value| value.is_finite()) {
        return Some(Reading::Float(value));
    }
    // yaml.v2 read binary numbers before Go did, and accepts a sign after the prefix.
    let value = i64::from_str_radix(text.strip_prefix("0b")?, 2).ok()?;
    Some(Reading::Int(value.into()))
}

/// Parses a number that starts with a point in Go's syntax, which allows an underscore between two digits.
fn dotted(text: &str) -> Option<f64> {
    let digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let separators = text.match_indices('_').all(|(at, _)| digit(at.checked_sub(1)) && digit(at.checked_add(1)));
    if separators { decimal_float(&text.replace('_', "")).filter(|value| value.is_finite()) } else { None }
}

/// Converts a scalar with an expanded tag, quoted or not, to the equivalent scalar without a tag. `None` if yaml.v2
/// refuses it.
pub(crate) fn resolve_tagged(tag: &str, text: &str) -> Option<Scalar> {
    let Some(core) = tag.strip_prefix(CORE) else { return Some(Scalar::quoted(text)) };
    match (core, resolve(text)) {
        ("null", Reading::Null) | ("bool", Reading::Bool(_)) | ("int", Reading::Int(_)) => Some(Scalar::plain(text)),
        ("float", Reading::Float(_)) => Some(Scalar::plain(text)),
        // yaml.v2 converts with the precision of a float64, but converts no number beyond int64.
        ("float", Reading::Int(value)) if i64::try_from(value).is_ok() => {
            Some(Scalar::plain(format!("{}", value as f64)))
        }
        ("timestamp", _) if is_timestamp(text) => Some(Scalar::quoted(text)),
        ("null" | "bool" | "int" | "float" | "timestamp", _) => None,
        ("binary", _) => base64(text).map(|bytes| Scalar::quoted(go_text(&bytes))),
        _ => Some(Scalar::quoted(text)),
    }
}

/// Decodes base64 with padding, whose line breaks do not count.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut rest, mut bits) = (Vec::new(), 0_u32, 0);
    for c in digits.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        rest = (rest << 6) | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.extend(u8::try_from(rest >> bits));
            rest &= (1 << bits) - 1;
        }
    }
    (rest == 0).then_some(bytes)
}

/// Converts bytes to text as Go does for JSON: each invalid byte becomes U+FFFD.
fn go_text(bytes: &[u8]) -> String {
    let chunk =
        |chunk: std::str::Utf8Chunk<'_>| format!("{}{}", chunk.valid(), "\u{fffd}".repeat(chunk.invalid().len()));
    bytes.utf8_chunks().map(chunk).collect()
}

/// Reports whether yaml.v2 reads a text as a timestamp: a date, or a date and a time. After `T` the time needs a
/// zone; after a blank it has none.
fn is_timestamp(text: &str) -> bool {
    if let Some((date, time)) = text.split_once(['T', 't']) {
        let (time, zone) = time.split_at(time.find(['Z', '+', '-']).unwrap_or(time.len()));
        let offset = zone.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
        let zoned = match offset {
            Some((hours, minutes)) => number(hours, 2, 24).is_some() && number(minutes, 2, 60).is_some(),
            None => zone == "Z",
        };
        return is_date(date) && is_time(time) && zoned;
    }
    match text.split_once(' ') {
        Some((date, time)) => is_date(date) && is_time(time),
        None => is_date(text),
    }
}

/// Parses a number up to `most`, of `digits` digits; a number of one digit may have two.
fn number(part: &str, digits: usize, most: u32) -> Option<u32> {
    let good = (digits..=digits.max(2)).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    part.parse().ok().filter(|value| good && *value <= most)
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (Some(year), Some(month), Some(day)) = (number(year, 4, 9999), number(month, 1, 12), number(day, 1, 31)) else {
        return false;
    };
    let days = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    month > 0 && (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let (text, fraction) = match text.split_once(['.', ',']) {
        Some((text, fraction)) => (text, fraction),
        None => (text, "0"),
    };
    let mut parts = text.splitn(3, ':');
    [23, 59, 59].iter().all(|most| parts.next().is_some_and(|part| number(part, 1, *most).is_some()))
        && !fraction.is_empty()
        && fraction.bytes().all(|b| b.is_ascii_digit())
}

/// Converts a key to its JSON text. `None` for a key that sigs.k8s.io/yaml refuses.
pub(crate) fn key_text(reading: &Reading<'_>) -> Option<String> {
    match reading {
        Reading::Text(text) => Some((*text).to_owned()),
        Reading::Bool(value) => Some(value.to_string()),
        Reading::Int(value) => i64::try_from(*value).ok().map(|value| value.to_string()),
        Reading::Float(value) => Some(float_key(*value)),
        Reading::Null => None,
    }
}

/// Formats a float key as Go's `FormatFloat(value, 'g', -1, 32)` does, with the precision of a float32.
fn float_key(value: f64) -> String {
    // Rounds as Go does; values beyond a float32 become infinite.
    let value = value as f32;
    if !value.is_finite() {
        return Reading::Float(value.into()).to_string();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..6).contains(&exponent) {
        // The digits of the float32, not those of the float64.
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

pub(crate) fn special_float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Parses an integer as Go's `strconv.ParseInt` and `ParseUint` do with base 0: `0x`, `0o`, `0b`, and a leading zero
/// for octal.
fn go_integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut head = digits.chars();
    let value = match (head.next(), head.next()) {
        (Some('0'), Some('x' | 'X')) => unsigned(head.as_str(), 16),
        (Some('0'), Some('o' | 'O')) => unsigned(head.as_str(), 8),
        (Some('0'), Some('b' | 'B')) => unsigned(head.as_str(), 2),
        (Some('0'), Some(_)) => unsigned(digits, 8),
        _ => unsigned(digits, 10),
    }?;
    let value = sign * value;
    // With a sign, even a plus, only ParseInt applies.
    let most = if digits.len() == text.len() { i128::from(u64::MAX) } else { i128::from(i64::MAX) };
    (i128::from(i64::MIN)..=most).contains(&value).then_some(value)
}

pub(crate) fn unsigned(digits: &str, radix: u32) -> Option<i128> {
    // `from_str_radix` accepts a sign, which is invalid here.
    if digits.starts_with(['-', '+']) { None } else { i128::from_str_radix(digits, radix).ok() }
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, the same in yaml.v2 and YAML 1.2.
pub(crate) fn decimal_float(text: &str) -> Option<f64> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let good = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    if good { text.parse().ok() } else { None }
}
