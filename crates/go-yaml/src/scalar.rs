//! Scalars: their meaning to Go and to YAML 1.2 readers, and a notation that all of them read alike.

use std::fmt;

use crate::resolve::{decimal_float, resolve, special_float, unsigned};

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
