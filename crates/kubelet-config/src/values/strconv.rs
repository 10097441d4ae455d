//! Booleans and numbers in strings, parsed as Go's `strconv` does. The kubelet parses percentages and the values of
//! policy options this way.

/// Parses a boolean (`strconv.ParseBool`).
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a signed or unsigned decimal number of 64 bits (`strconv.Atoi`).
pub(crate) fn integer(text: &str) -> Option<i64> {
    // Rust accepts the same texts: an optional sign and digits.
    text.parse().ok()
}

/// Parses an unsigned decimal number of 64 bits (`strconv.ParseUint`, base 10): digits without a sign.
#[must_use]
pub fn unsigned(text: &str) -> Option<u64> {
    // Rust accepts a plus sign too.
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Parses an unsigned decimal number of 32 bits, as [`unsigned`].
#[must_use]
pub fn unsigned32(text: &str) -> Option<u32> {
    u32::try_from(unsigned(text)?).ok()
}

/// Parses a 32-bit number (`strconv.ParseFloat(text, 32)`): decimal or hexadecimal, with underscores between digits,
/// infinity or NaN. Returns `None` also for numbers out of range.
pub(crate) fn float32(text: &str) -> Option<f32> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = |value: f32| if negative { -value } else { value };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(signed(f32::INFINITY)),
        "nan" if unsigned.len() == text.len() => return Some(f32::NAN),
        _ => {}
    }
    if !underscores_stand_between_digits(unsigned) {
        return None;
    }
    let plain = unsigned.replace('_', "");
    let value = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits)?,
        None => decimal(&plain)?,
    };
    value.is_finite().then(|| signed(value))
}

/// Reports whether every underscore is between two digits, or between the prefix and a digit.
fn underscores_stand_between_digits(unsigned: &str) -> bool {
    let hexadecimal = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let digit = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_digit() || hexadecimal && b.is_ascii_hexdigit());
    let bytes = unsigned.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at).copied());
        let after_prefix = hexadecimal && at == 2;
        (digit(before) || after_prefix) && digit(bytes.get(at + 1).copied())
    })
}

fn decimal(text: &str) -> Option<f32> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let good = is_mantissa(mantissa, |b| b.is_ascii_digit()) && exponent.is_none_or(is_exponent);
    if good { text.parse().ok() } else { None }
}

fn is_mantissa(text: &str, digit: impl Fn(&u8) -> bool) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    !(whole.is_empty() && fraction.is_empty()) && whole.as_bytes().iter().chain(fraction.as_bytes()).all(digit)
}

fn is_exponent(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Parses the text after `0x`: hexadecimal digits with an optional point, and a required exponent of two.
fn hexadecimal(text: &str) -> Option<f32> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    if !is_mantissa(mantissa, u8::is_ascii_hexdigit) || !is_exponent(exponent) {
        return None;
    }
    let bound = |text: &str| text.parse::<i64>().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX });
    let mut exponent = bound(exponent).clamp(-100_000_000, 100_000_000);
    let point = mantissa.find('.').unwrap_or(mantissa.len());
    let (mut value, mut taken) = (0_u64, 0);
    for digit in mantissa.chars().enumerate().filter_map(|(at, c)| Some((at, c.to_digit(16)?))) {
        let (at, digit) = digit;
        if taken < 15 {
            value = value * 16 + u64::from(digit);
            taken += usize::from(value != 0);
            exponent -= if at > point { 4 } else { 0 };
        } else {
            // Digits beyond the precision of 32 bits only affect rounding.
            value |= u64::from(digit != 0);
            exponent += if at > point { 0 } else { 4 };
        }
    }
    let exponent = i32::try_from(exponent).ok()?;
    // Two factors within the range of f64, so that no intermediate result overflows.
    let half = exponent / 2;
    let value = value as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    Some(value as f32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_booleans_and_integers() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(boolean(text), Some(true));
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(boolean(text), Some(false));
        }
        for text in ["", "yes", "tRUE", "2", " true", "on"] {
            assert_eq!(boolean(text), None, "{text}");
        }
        for (text, value) in [("8", 8), ("+8", 8), ("-8", -8), ("08", 8), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
        for text in ["", "+", "-", "0x8", "8.0", "1_0", " 8", "1e1", "9223372036854775808"] {
            assert_eq!(integer(text), None, "{text}");
        }
        for (text, value) in [("8", 8), ("08", 8), ("18446744073709551615", u64::MAX)] {
            assert_eq!(unsigned(text), Some(value), "{text}");
        }
        for text in ["", "+8", "-8", "+", "1_0", " 8", "18446744073709551616"] {
            assert_eq!(unsigned(text), None, "{text}");
        }
    }

    #[test]
    fn parses_floats() {
        for (text, value) in [
            ("5", 5.0),
            ("+5", 5.0),
            ("-5", -5.0),
            ("1e1", 10.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1_0", 10.0),
            ("1_23.50_0_0e+1_2", 1.235e14),
            ("0x1p-2", 0.25),
            ("0X1.8P3", 12.0),
            ("0x_1_0p0", 16.0),
            ("0x.8p1", 1.0),
            ("0x0000000000000000000001p0", 1.0),
            ("0x1.00000000000000000000001p4", 16.0),
            ("0x10000000000000000000p-76", 1.0),
            ("1e-400", 0.0),
            ("0x1p-100000000000", 0.0),
            ("007", 7.0),
            ("-inf", f32::NEG_INFINITY),
            ("Infinity", f32::INFINITY),
        ] {
            assert_eq!(float32(text), Some(value), "{text}");
        }
        assert!(float32("NaN").is_some_and(f32::is_nan));
        for text in [
            "",
            " 5",
            "5 ",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "1__0",
            "_1",
            "1_",
            "1_.5",
            "1._5",
            "1e_5",
            "0x1",
            "0x",
            "0xp1",
            "0x1p",
            "0x1.5",
            "+nan",
            "in",
            "1e39",
            "0x1p128",
            "1,5",
            "5%",
            "0b1p1",
            "--5",
            "1.2.3",
            "0x1p100000000000",
            "_0x1p1",
        ] {
            assert_eq!(float32(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in "\\PC*") {
            let _ = (boolean(&text), integer(&text), unsigned(&text), float32(&text));
        }

        #[test]
        fn parses_formatted_numbers(value in any::<f32>().prop_filter("finite", |value| value.is_finite())) {
            prop_assert_eq!(float32(&format!("{value:e}")), Some(value));
        }
    }
}
