//! Resolution of untyped scalars as in yaml.v2 (its `resolve.go`), and of keys that are not text as in
//! sigs.k8s.io/yaml.
//!
//! yaml.v2 reads YAML 1.1's booleans and octal numbers, but neither base-60 numbers nor timestamps: `1:30` and
//! `2001-01-01` are text. Kubelets of all versions resolve scalars the same way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Reading, Scalar};

/// The prefix of YAML's own tags, abbreviated `!!`.
pub(super) const CORE: &str = "tag:yaml.org,2002:";

/// Resolves a plain scalar without a tag.
pub(super) fn resolve(text: &str) -> Reading<'_> {
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

/// Converts a scalar with an expanded tag, quoted or not, to the equivalent scalar without a tag.
///
/// # Errors
/// The reason why yaml.v2 refuses the scalar.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Scalar, String> {
    let Some(core) = tag.strip_prefix(CORE) else { return Ok(Scalar::quoted(text)) };
    let fits = match (core, resolve(text)) {
        ("null", Reading::Null) | ("bool", Reading::Bool(_)) | ("int", Reading::Int(_)) => Some(Scalar::plain(text)),
        ("float", Reading::Float(_)) => Some(Scalar::plain(text)),
        // yaml.v2 converts with the precision of a float64, but converts no number beyond int64.
        ("float", Reading::Int(value)) if i64::try_from(value).is_ok() => {
            Some(Scalar::plain(format!("{}", value as f64)))
        }
        ("timestamp", _) if is_timestamp(text) => Some(Scalar::quoted(text)),
        ("null" | "bool" | "int" | "float" | "timestamp", _) => None,
        ("binary", _) => {
            let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let bytes = STANDARD.decode(text).map_err(|_| "`!!binary` requires base64".to_owned())?;
            return Ok(Scalar::quoted(go_text(&bytes)));
        }
        _ => Some(Scalar::quoted(text)),
    };
    fits.ok_or_else(|| format!("{text:?} is not a valid `!!{core}`"))
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
    let number = |part: &str, digits: std::ops::RangeInclusive<usize>, most: u32| {
        digits.contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|value| value <= most)
    };
    let is_date = |text: &str| {
        let mut parts = text.splitn(3, '-');
        let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else { return false };
        let days = match month.trim_start_matches('0') {
            "2" => {
                28 + u32::from(
                    jiff::civil::Date::new(year.parse().unwrap_or(1), 1, 1).is_ok_and(jiff::civil::Date::in_leap_year),
                )
            }
            "4" | "6" | "9" | "11" => 30,
            _ => 31,
        };
        number(year, 4..=4, 9999)
            && number(month, 1..=2, 12)
            && number(day, 1..=2, days)
            && [month, day].iter().all(|part| !part.trim_matches('0').is_empty())
    };
    let is_time = |text: &str| {
        let (text, fraction) = match text.split_once(['.', ',']) {
            Some((text, fraction)) => (text, Some(fraction)),
            None => (text, None),
        };
        let mut parts = text.splitn(3, ':');
        let (Some(hour), Some(minute), Some(second)) = (parts.next(), parts.next(), parts.next()) else { return false };
        number(hour, 1..=2, 23)
            && number(minute, 1..=2, 59)
            && number(second, 1..=2, 59)
            && fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    if let Some((date, time)) = text.split_once(['T', 't']) {
        let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
        let (time, zone) = time.split_at(zone);
        let zoned = zone == "Z"
            || zone
                .strip_prefix(['+', '-'])
                .and_then(|zone| zone.split_once(':'))
                .is_some_and(|(hours, minutes)| number(hours, 2..=2, 24) && number(minutes, 2..=2, 60));
        return is_date(date) && is_time(time) && zoned;
    }
    match text.split_once(' ') {
        Some((date, time)) => is_date(date) && is_time(time),
        None => is_date(text),
    }
}

/// Converts a key to its JSON text. `None` for a key that the kubelet refuses.
pub(super) fn key_text(reading: &Reading<'_>) -> Option<String> {
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
        return super::scalar::number(value.into());
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

pub(super) fn special_float(text: &str) -> Option<f64> {
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

pub(super) fn unsigned(digits: &str, radix: u32) -> Option<i128> {
    // `from_str_radix` accepts a sign, which is invalid here.
    if digits.starts_with(['-', '+']) { None } else { i128::from_str_radix(digits, radix).ok() }
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, the same in yaml.v2 and YAML 1.2.
pub(super) fn decimal_float(text: &str) -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_unusual_numbers_as_yaml_v2() {
        for (text, reading) in [
            (".1_0", Reading::Float(0.1)),
            ("._1", Reading::Text("._1")),
            (".1_", Reading::Text(".1_")),
            (".5e3", Reading::Float(500.0)),
            (".5e999", Reading::Text(".5e999")),
            ("0b-101", Reading::Int(-5)),
            ("0b+11", Reading::Int(3)),
            ("-0b-101", Reading::Text("-0b-101")),
            ("+_5", Reading::Int(5)),
            ("0_7", Reading::Int(7)),
            ("1__0", Reading::Int(10)),
            ("-0777", Reading::Int(-511)),
            ("9223372036854775808", Reading::Int(9_223_372_036_854_775_808)),
            ("+9223372036854775808", Reading::Float(9_223_372_036_854_775_808.0)),
            ("1e-400", Reading::Float(0.0)),
        ] {
            assert_eq!(resolve(text), reading, "{text}");
        }
    }

    #[test]
    fn resolves_tagged_scalars() {
        let read = |tag: &str, text: &str| {
            let tag = if tag.starts_with('!') { tag.to_owned() } else { format!("{CORE}{tag}") };
            resolve_tagged(&tag, text).map(|scalar| scalar.read().describe())
        };
        for (tag, text, meaning) in [
            ("int", "10", "the number 10"),
            ("float", "10", "the number 10"),
            ("bool", "no", "the boolean false"),
            ("null", "", "null"),
            ("str", "5", "the text \"5\""),
            ("timestamp", "2001-2-30", "-"),
            ("timestamp", "2004-2-29", "the text \"2004-2-29\""),
            ("timestamp", "2001-12-14t21:59:43.10-05:00", "the text \"2001-12-14t21:59:43.10-05:00\""),
            ("timestamp", "2001-12-14 21:59:43", "the text \"2001-12-14 21:59:43\""),
            ("timestamp", "2001-12-14T21:59:43", "-"),
            ("timestamp", "5", "-"),
            ("int", "5.0", "-"),
            ("float", "18446744073709551615", "-"),
            ("bool", "x", "-"),
            ("null", "x", "-"),
            ("binary", "aGk=", "the text \"hi\""),
            ("binary", "aG\nk=", "the text \"hi\""),
            ("binary", "4oI=", "the text \"\u{fffd}\u{fffd}\""),
            ("binary", "a", "-"),
            ("map", "x", "the text \"x\""),
            ("!mine", "5", "the text \"5\""),
        ] {
            assert_eq!(read(tag, text).unwrap_or_else(|_| "-".to_owned()), meaning, "{tag} {text}");
        }
    }

    #[test]
    fn converts_keys_to_json() {
        for (text, key) in [
            ("1", Some("1")),
            ("0x10", Some("16")),
            ("yes", Some("true")),
            ("1.50", Some("1.5")),
            ("1e2", Some("100")),
            ("1e6", Some("1e+06")),
            ("123456789.5", Some("1.2345679e+08")),
            ("0.00001", Some("1e-05")),
            ("1e40", Some(".inf")),
            ("-.inf", Some("-.inf")),
            ("-0.0", Some("-0")),
            ("x", Some("x")),
            ("~", None),
            ("18446744073709551615", None),
        ] {
            assert_eq!(key_text(&resolve(text)).as_deref(), key, "{text}");
        }
    }
}
