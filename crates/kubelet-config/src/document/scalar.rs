//! The meaning of a scalar to the kubelet and to a YAML 1.2 reader.
//!
//! The YAML 1.2 core schema is narrower than the kubelet's reader. A plain scalar with two different meanings is
//! ambiguous. The author meant one of them, and a wrong guess would reach every node of a pool.

use super::canonical::quoted;
use super::resolve::{decimal_float, resolve, special_float, unsigned};

/// The notation of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// Without quotes: the only style that can be anything but text.
    Plain,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// A literal block, `|`.
    Literal,
    /// A folded block, `>`.
    Folded,
}

/// A scalar as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text, after escapes and folding.
    pub text: String,
    /// The notation.
    pub style: ScalarStyle,
    /// True if the tag is `!!str`, which forces text.
    pub tagged_text: bool,
}

/// The meaning of a scalar to the kubelet.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading<'a> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number between `i64::MIN` and `u64::MAX`.
    Int(i128),
    /// A number. The kubelet refuses a file with a number that is not finite.
    Float(f64),
    /// Text.
    Text(&'a str),
}

/// An ambiguous plain scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ambiguity {
    /// One sentence with the possible meanings.
    pub problem: String,
    /// The unambiguous notations.
    pub fix: String,
}

impl Reading<'_> {
    /// Returns a phrase for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {}", number(*value)),
            Self::Text(text) => format!("the text {text:?}"),
        }
    }

    /// Returns the whole number that the kubelet reads. The kubelet converts YAML to JSON first: 5.0 becomes 5, and a
    /// large float becomes its digits. From 1e21 on the JSON number has an exponent and is not a whole number.
    #[must_use]
    pub fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 1e21 => format!("{value}").parse().ok(),
            _ => None,
        }
    }
}

impl Scalar {
    /// Creates text, as if in double quotes.
    #[must_use]
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: ScalarStyle::DoubleQuoted, tagged_text: false }
    }

    /// Creates a plain scalar.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: ScalarStyle::Plain, tagged_text: false }
    }

    /// Returns the meaning to the kubelet. Quoted, block and `!!str` scalars are text.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        if self.is_text() { Reading::Text(&self.text) } else { resolve(&self.text) }
    }

    /// Returns the ambiguity of the scalar: readers disagree, or no field accepts the value. `None` if the scalar is
    /// unambiguous.
    #[must_use]
    pub fn ambiguity(&self) -> Option<Ambiguity> {
        if self.is_text() { None } else { ambiguity(&self.text) }
    }

    fn is_text(&self) -> bool {
        self.style != ScalarStyle::Plain || self.tagged_text
    }
}

/// Formats a float in canonical form, with the shortest digits that read back as the same float. From 1e-4 to below
/// 1e16 the text has no exponent, and a whole number has no point. Other finite numbers have a point and a signed
/// exponent, as YAML 1.1 requires for floats. Both zeros are `0`.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return if value.is_nan() {
            ".nan"
        } else if value > 0.0 {
            ".inf"
        } else {
            "-.inf"
        }
        .to_owned();
    }
    if (1e-4..1e16).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    format!("{mantissa}{point}e{sign}{exponent}")
}

fn ambiguity(text: &str) -> Option<Ambiguity> {
    let kubelet = resolve(text);
    let core = core_reading(text);
    if let Reading::Float(value) = core
        && !value.is_finite()
    {
        return Some(Ambiguity {
            problem: format!("`{text}` is not a finite number, and no field of the kubelet accepts it"),
            fix: format!("write a number, or {} for the text", quoted(text)),
        });
    }
    // Strict YAML 1.1 reads `0o17` as text, although yaml.v2 and YAML 1.2 agree on a number.
    let octal_12 = matches!(kubelet, Reading::Int(_)) && text.trim_start_matches(['-', '+']).starts_with("0o");
    if kubelet == core && !octal_12 {
        return None;
    }
    let other = if octal_12 { Reading::Text(text) } else { core };
    let reader = if octal_12 { "strict YAML 1.1 readers" } else { "YAML 1.2 readers" };
    let mut notations: Vec<String> = Vec::new();
    for reading in [&kubelet, &other] {
        let notation = match reading {
            Reading::Bool(value) => value.to_string(),
            Reading::Int(value) => value.to_string(),
            Reading::Float(value) => number(*value),
            _ => continue,
        };
        if !notations.contains(&notation) {
            notations.push(notation);
        }
    }
    Some(Ambiguity {
        problem: format!("`{text}` is {} to the kubelet and {} to {reader}", kubelet.describe(), other.describe()),
        fix: format!("write {}, or {} for the text", notations.join(" or "), quoted(text)),
    })
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
        // A number too long for i128 becomes one that differs from the kubelet's.
        return Reading::Int(text.parse().unwrap_or(i128::MAX));
    }
    decimal_float(text).map_or(Reading::Text(text), Reading::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match Scalar::plain(text).ambiguity() {
            Some(ambiguity) => format!("ambiguous: {}", ambiguity.fix),
            None => Scalar::plain(text).read().describe(),
        }
    }

    #[test]
    fn unambiguous_scalars_keep_their_meaning() {
        for (text, meaning) in [
            ("", "null"),
            ("~", "null"),
            ("null", "null"),
            ("true", "the boolean true"),
            ("FALSE", "the boolean false"),
            ("tRUE", "the text \"tRUE\""),
            ("0", "the number 0"),
            ("-0", "the number 0"),
            ("00", "the number 0"),
            ("+5", "the number 5"),
            ("0x10", "the number 16"),
            ("1e2", "the number 100"),
            ("5.0", "the number 5"),
            ("5.", "the number 5"),
            (".5", "the number 0.5"),
            ("-0.0", "the number 0"),
            ("0.8", "the number 0.8"),
            ("1e300", "the number 1.0e+300"),
            ("1.5e-9", "the number 1.5e-9"),
            ("18446744073709551615", "the number 18446744073709551615"),
            ("1:30", "the text \"1:30\""),
            ("10%", "the text \"10%\""),
            ("100Mi", "the text \"100Mi\""),
            ("2001-01-01", "the text \"2001-01-01\""),
            ("1.2.3", "the text \"1.2.3\""),
            ("_1", "the text \"_1\""),
            (".", "the text \".\""),
            ("e5", "the text \"e5\""),
            ("-", "the text \"-\""),
            ("0x", "the text \"0x\""),
        ] {
            assert_eq!(read(text), meaning, "{text}");
        }
    }

    #[test]
    fn reports_scalars_with_two_meanings() {
        for (text, fix) in [
            ("yes", "write true, or \"yes\" for the text"),
            ("Off", "write false, or \"Off\" for the text"),
            ("y", "write true, or \"y\" for the text"),
            ("N", "write false, or \"N\" for the text"),
            ("0777", "write 511 or 777, or \"0777\" for the text"),
            ("-012", "write -10 or -12, or \"-012\" for the text"),
            ("08", "write 8, or \"08\" for the text"),
            ("0o17", "write 15, or \"0o17\" for the text"),
            ("0b101", "write 5, or \"0b101\" for the text"),
            ("0X10", "write 16, or \"0X10\" for the text"),
            ("-0x10", "write -16, or \"-0x10\" for the text"),
            ("1_000", "write 1000, or \"1_000\" for the text"),
            ("1_0.5", "write 10.5, or \"1_0.5\" for the text"),
            ("1e999", "write a number, or \"1e999\" for the text"),
            (".inf", "write a number, or \".inf\" for the text"),
            (".NaN", "write a number, or \".NaN\" for the text"),
        ] {
            assert_eq!(read(text), format!("ambiguous: {fix}"), "{text}");
        }
        assert!(read("18446744073709551616").starts_with("ambiguous"));
        assert!(read(&"9".repeat(60)).starts_with("ambiguous"));
    }

    #[test]
    fn ambiguity_names_both_readers() {
        assert_eq!(
            ambiguity("yes").expect("yes is ambiguous").problem,
            "`yes` is the boolean true to the kubelet and the text \"yes\" to YAML 1.2 readers"
        );
    }

    #[test]
    fn reads_ambiguous_scalars_as_the_kubelet_does() {
        for (text, meaning) in [
            ("yes", "the boolean true"),
            ("Off", "the boolean false"),
            ("0777", "the number 511"),
            ("08", "the number 8"),
            ("1_000", "the number 1000"),
            ("0b101", "the number 5"),
            ("1e999", "the text \"1e999\""),
            ("18446744073709551616", "the number 1.8446744073709552e+19"),
            ("-.inf", "the number -.inf"),
        ] {
            assert_eq!(Scalar::plain(text).read().describe(), meaning, "{text}");
        }
    }

    #[test]
    fn whole_numbers_follow_conversion_to_json() {
        for (text, whole) in [
            ("5.0", Some(5)),
            ("1e2", Some(100)),
            ("1e20", Some(100_000_000_000_000_000_000)),
            ("1e21", None),
            ("0.5", None),
            ("9007199254740993.0", Some(9_007_199_254_740_992)),
            ("9223372036854775807.0", Some(9_223_372_036_854_776_000)),
            ("-0.0", Some(0)),
            (".inf", None),
            ("x", None),
        ] {
            assert_eq!(Scalar::plain(text).read().whole(), whole, "{text}");
        }
    }

    #[test]
    fn quotes_and_tags_force_text() {
        for text in ["yes", "0777", "", "null", "5"] {
            assert_eq!(Scalar::quoted(text).read(), Reading::Text(text));
            let tagged = Scalar { tagged_text: true, ..Scalar::plain(text) };
            assert_eq!(tagged.read(), Reading::Text(text));
        }
    }
}
