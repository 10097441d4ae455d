//! Scalars: their meaning to Go and to YAML 1.2 readers, and a notation that all of them read alike.
//!
//! Untyped scalars are resolved as in yaml.v2 (its `resolve.go`), and keys that are not text as in sigs.k8s.io/yaml.
//! yaml.v2 reads YAML 1.1's booleans and octal numbers, but neither base-60 numbers nor timestamps: `1:30` and
//! `2001-01-01` are text.

use std::fmt;

/// A scalar as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text, after escapes and folding.
    pub text: String,
    /// True if the scalar may be anything but text: it has neither quotes nor the tag `!!str`, and is no block (`|` or
    /// `>`).
    pub plain: bool,
}

/// The meaning of a scalar to Go.
///
/// The [`Display`](fmt::Display) form is a notation that YAML 1.1 and 1.2 readers read alike. Text without quotes
/// cannot be taken for another type. Other text is ASCII in double quotes. The form of a reading never changes, so
/// that programs can store and hash it.
///
/// ```
/// use go_yaml::{Reading, Scalar};
///
/// for (text, reading, notation) in [
///     ("on", Reading::Bool(true), "true"),
///     ("0o17", Reading::Int(15), "15"),
///     ("1e4", Reading::Float(10_000.0), "10000"),
///     ("~", Reading::Null, "null"),
///     ("2001-01-01", Reading::Text("2001-01-01"), "\"2001-01-01\""),
/// ] {
///     assert_eq!(Scalar::plain(text).read(), reading);
///     assert_eq!(reading.to_string(), notation);
/// }
/// assert_eq!(Scalar::quoted("on").read(), Reading::Text("on"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading<'a> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number between `i64::MIN` and `u64::MAX`.
    Int(i128),
    /// Another number. sigs.k8s.io/yaml refuses one that is not finite, because JSON has no such number.
    Float(f64),
    /// Text.
    Text(&'a str),
}

/// A reason to write a plain scalar in another way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ambiguity<'a> {
    /// Some reader reads a number that is infinite or not a number, which JSON cannot express.
    NotFinite,
    /// YAML 1.2 readers read this value (core schema, chapter 10.3.2).
    Yaml12(Reading<'a>),
    /// Strict YAML 1.1 readers read this text: their octal numbers have no `0o`.
    Yaml11(&'a str),
}

impl Scalar {
    /// Creates text, as if in double quotes.
    #[must_use]
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), plain: false }
    }

    /// Creates a plain scalar.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), plain: true }
    }

    /// Returns the meaning to Go.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        if self.plain { resolve(&self.text) } else { Reading::Text(&self.text) }
    }

    /// Returns the meaning to other readers if it differs, or if the number is not finite.
    #[must_use]
    pub fn ambiguity(&self) -> Option<Ambiguity<'_>> {
        if !self.plain {
            return None;
        }
        let (go, core) = (self.read(), core_reading(&self.text));
        if matches!(core, Reading::Float(value) if !value.is_finite()) {
            return Some(Ambiguity::NotFinite);
        }
        if matches!(go, Reading::Int(_)) && self.text.trim_start_matches(['-', '+']).starts_with("0o") {
            return Some(Ambiguity::Yaml11(&self.text));
        }
        (go != core).then_some(Ambiguity::Yaml12(core))
    }
}

impl Reading<'_> {
    /// Returns a phrase for messages, such as `the number 5`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(_) | Self::Float(_) => format!("the number {self}"),
            Self::Text(text) => format!("the text {text:?}"),
        }
    }

    /// Returns the whole number of the JSON into which sigs.k8s.io/yaml converts the value: 5.0 becomes 5, and a large
    /// float becomes its digits. From 1e21 on the JSON number has an exponent and is not a whole number.
    #[must_use]
    pub fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 1e21 => format!("{value}").parse().ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Reading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write_float(f, *value),
            Self::Text(text) if is_safe(text) => f.write_str(text),
            Self::Text(text) => write_quoted(f, text),
        }
    }
}

/// Writes a float with the shortest digits that read back as the same float. From 1e-4 to below 1e16 the text has no
/// exponent, and a whole number has no point. Other finite numbers have a point and a signed exponent, as YAML 1.1
/// requires for floats. Both zeros are `0`.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value == 0.0 {
        return f.write_str("0");
    }
    if value.is_nan() {
        return f.write_str(".nan");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { ".inf" } else { "-.inf" });
    }
    if (1e-4..1e16).contains(&value.abs()) {
        return write!(f, "{value}");
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    write!(f, "{mantissa}{point}e{sign}{exponent}")
}

/// Texts that some YAML reader takes for a boolean or null, in lower case.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Reports whether a text can be plain. It starts with a letter, `_` or `/`, continues with letters, digits and
/// `_./-`, and is not reserved. No number, date, indicator or separator has this form.
fn is_safe(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

/// Writes a text in double quotes, in ASCII. YAML 1.1 and 1.2 share the escapes `\u` and `\U`.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            ' '..='~' => write!(f, "{c}")?,
            '\0'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c))?,
            _ => write!(f, "\\U{:08x}", u32::from(c))?,
        }
    }
    f.write_str("\"")
}

/// Reads a scalar by the core schema of YAML 1.2 (chapter 10.3.2).
fn core_reading(text: &str) -> Reading<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Reading::Null,
        "true" | "True" | "TRUE" => return Reading::Bool(true),
        "false" | "False" | "FALSE" => return Reading::Bool(false),
        _ => {}
    }
    if let Some(value) = special_float(text) {
        return Reading::Float(value);
    }
    let based = match (text.strip_prefix("0o"), text.strip_prefix("0x")) {
        (Some(digits), _) => unsigned(digits, 8),
        (_, Some(digits)) => unsigned(digits, 16),
        _ => None,
    };
    if let Some(value) = based {
        return Reading::Int(value);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        // A number too long for i128 becomes one that differs from Go's.
        return Reading::Int(text.parse().unwrap_or(i128::MAX));
    }
    decimal_float(text).map_or(Reading::Text(text), Reading::Float)
}

/// The prefix of YAML's own tags, abbreviated `!!`.
pub(crate) const CORE: &str = "tag:yaml.org,2002:";

/// Resolves a plain scalar without a tag.
fn resolve(text: &str) -> Reading<'_> {
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

fn special_float(text: &str) -> Option<f64> {
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

fn unsigned(digits: &str, radix: u32) -> Option<i128> {
    // `from_str_radix` accepts a sign, which is invalid here.
    if digits.starts_with(['-', '+']) { None } else { i128::from_str_radix(digits, radix).ok() }
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, the same in yaml.v2 and YAML 1.2.
fn decimal_float(text: &str) -> Option<f64> {
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
