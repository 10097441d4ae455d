//! What a scalar means: to the kubelet's YAML reader, to a YAML 1.2 reader, or to neither for certain.
//!
//! The kubelet reads with yaml.v2 (`resolve.go`), which takes YAML 1.1's booleans and octal numbers, but neither its
//! base-60 numbers nor, in untyped data, its timestamps: `1:30` and `2001-01-01` are text to it. YAML 1.2's core schema
//! takes less. A plain scalar on which the two disagree is refused rather than read one way or the other: whoever wrote
//! it meant one of them, and a guess would reach every node of a pool.

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// Without quotes: the only style that may be anything but text.
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
    /// Its text, after escapes and folding.
    pub text: String,
    /// How it was written.
    pub style: ScalarStyle,
    /// Whether it is tagged `!!str`, which makes it text whatever it looks like.
    pub tagged_text: bool,
}

/// What a scalar means.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading<'a> {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number between the least i64 and the greatest u64.
    Int(i128),
    /// A finite number.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// Readers disagree, or the kubelet cannot use it.
    Refused(Refusal),
}

/// Why a plain scalar is not read, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The sentence: what it could mean, and to whom.
    pub problem: String,
    /// What to write instead.
    pub way_out: String,
}

impl Reading<'_> {
    /// What it is, for a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {}", number(*value)),
            Self::Text(text) => format!("the text {text:?}"),
            Self::Refused(_) => "an ambiguous scalar".to_owned(),
        }
    }
}

impl Scalar {
    /// Text, as if written in double quotes.
    #[must_use]
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: ScalarStyle::DoubleQuoted, tagged_text: false }
    }

    /// A plain scalar.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: ScalarStyle::Plain, tagged_text: false }
    }

    /// What it means to the kubelet, or why that is not certain. Quoted, block and `!!str` scalars are text.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        if self.style != ScalarStyle::Plain || self.tagged_text {
            return Reading::Text(&self.text);
        }
        read_plain(&self.text)
    }
}

/// A float in one normal form: a whole number within i64 without a point; otherwise the shortest decimal that reads
/// back, with a point and a signed exponent, as YAML 1.1 asks of a float.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
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

fn read_plain(text: &str) -> Reading<'_> {
    let kubelet = kubelet_reading(text);
    let core = core_reading(text);
    if let Reading::Float(value) = core
        && !value.is_finite()
    {
        return Reading::Refused(Refusal {
            problem: format!("`{text}` is not a finite number, which no field of the kubelet takes"),
            way_out: format!("write a number, or {} for the text", super::canonical::quoted(text)),
        });
    }
    // YAML 1.1 proper reads `0o17` as text, though yaml.v2 and YAML 1.2 agree on it.
    let octal_12 = matches!(kubelet, Reading::Int(_)) && text.trim_start_matches(['-', '+']).starts_with("0o");
    if kubelet == core && !octal_12 {
        return kubelet;
    }
    let other = if octal_12 { Reading::Text(text) } else { core };
    let who = if octal_12 { "strict YAML 1.1 readers" } else { "YAML 1.2 readers" };
    let mut ways: Vec<String> = Vec::new();
    for reading in [&kubelet, &other] {
        let way = match reading {
            Reading::Bool(value) => value.to_string(),
            Reading::Int(value) => value.to_string(),
            Reading::Float(value) => number(*value),
            _ => continue,
        };
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    Reading::Refused(Refusal {
        problem: format!("`{text}` is {} to the kubelet and {} to {who}", kubelet.describe(), other.describe()),
        way_out: format!("write {}, or {} for the text", ways.join(" or "), super::canonical::quoted(text)),
    })
}

/// yaml.v2's `resolve`, for a plain scalar in untyped data.
fn kubelet_reading(text: &str) -> Reading<'_> {
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
    let plain: String = match text.chars().next() {
        // A number that starts with a point may have no underscores.
        Some('.') => text.to_owned(),
        Some('+' | '-' | '0'..='9') => text.chars().filter(|c| *c != '_').collect(),
        _ => return Reading::Text(text),
    };
    if let Some(value) = go_integer(&plain) {
        return Reading::Int(value);
    }
    match decimal_float(&plain) {
        Some(value) if value.is_finite() => Reading::Float(value),
        _ => Reading::Text(text),
    }
}

/// The core schema of YAML 1.2 (chapter 10.3.2).
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
        // Too long even for i128: some whole number that is not the kubelet's, so that the two differ.
        return Reading::Int(text.parse().unwrap_or(i128::MAX));
    }
    decimal_float(text).map_or(Reading::Text(text), Reading::Float)
}

fn special_float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Go's `strconv.ParseInt` and `ParseUint` with base 0: `0x`, `0o`, `0b`, and a leading zero for octal.
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
    // A sign, even a plus, leaves only the signed form.
    let most = if digits.len() == text.len() { i128::from(u64::MAX) } else { i128::from(i64::MAX) };
    (i128::from(i64::MIN)..=most).contains(&value).then_some(value)
}

fn unsigned(digits: &str, radix: u32) -> Option<i128> {
    // `from_str_radix` takes a sign of its own, and there was one already or there may be none.
    if digits.starts_with(['-', '+']) { None } else { i128::from_str_radix(digits, radix).ok() }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, the same in yaml.v2 and in YAML 1.2.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match Scalar::plain(text).read() {
            Reading::Refused(refusal) => format!("refused: {}", refusal.way_out),
            reading => reading.describe(),
        }
    }

    #[test]
    fn scalars_on_which_readers_agree() {
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
    fn scalars_on_which_readers_disagree_are_refused() {
        for (text, way_out) in [
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
            assert_eq!(read(text), format!("refused: {way_out}"), "{text}");
        }
        assert!(read("18446744073709551616").starts_with("refused"));
        assert!(read(&"9".repeat(60)).starts_with("refused"));
    }

    #[test]
    fn a_refusal_says_who_reads_what() {
        let Reading::Refused(refusal) = read_plain("yes") else { panic!("yes is ambiguous") };
        assert_eq!(
            refusal.problem,
            "`yes` is the boolean true to the kubelet and the text \"yes\" to YAML 1.2 readers"
        );
    }

    #[test]
    fn quotes_and_tags_make_text() {
        for text in ["yes", "0777", "", "null", "5"] {
            assert_eq!(Scalar::quoted(text).read(), Reading::Text(text));
            let tagged = Scalar { tagged_text: true, ..Scalar::plain(text) };
            assert_eq!(tagged.read(), Reading::Text(text));
        }
    }
}
