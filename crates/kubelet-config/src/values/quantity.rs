//! Quantities (apimachinery `resource.Quantity`, `pkg/api/resource/quantity.go`): parsing and amounts.
//!
//! Parsing follows upstream's scanner exactly, including undocumented cases: `-`, `.` and `Gi` are quantities of
//! zero. Time and memory are linear in the length of the text.

use std::fmt;

/// Billionths in one unit. A billionth is the smallest amount of a quantity.
const NANOS: i128 = 1_000_000_000;
/// Limit on the digits that are scaled; larger values saturate.
const MAX_DIGITS: i64 = 30;

/// An amount, exact to the billionth up to 1.7e29. Larger amounts saturate; no resource reaches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    /// Billionths, saturating.
    nanos: i128,
}

/// A text parsed as a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// The amount.
    pub(crate) amount: Quantity,
    /// Result of `Quantity.AsInt64`, which depends on the notation. It is `None` for `1.0` and `1000m`, which have
    /// digits below the unit. It is also `None` for `1.5Gi` and `1Ei`, which upstream does not parse on its fast
    /// path.
    pub(crate) as_int64: Option<i64>,
}

/// Error for a text that is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidQuantity;

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a quantity; write a number with or without a unit, such as 500m, 2, 100Mi or 1.5Gi")
    }
}

impl Quantity {
    /// The zero quantity.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Returns a quantity of whole units.
    #[must_use]
    pub fn whole(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS }
    }

    /// Parses a text as `resource.ParseQuantity` does. Surrounding whitespace is an error.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        read(text).map(|reading| reading.amount)
    }

    /// Reports whether the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Reports whether the amount is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns the sum, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    /// Returns the number of thousandths, rounded away from zero as `Quantity.MilliValue` does. Saturates at the bounds
    /// of `i64`.
    #[must_use]
    pub fn rounded_up_thousandths(self) -> i64 {
        Self { nanos: self.nanos.saturating_mul(1000) }.rounded_up()
    }

    /// Returns the number of whole units, rounded away from zero as `Quantity.Value` does. Saturates at the bounds of
    /// `i64`.
    #[must_use]
    pub fn rounded_up(self) -> i64 {
        let whole = self.nanos / NANOS + (self.nanos % NANOS).signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

impl fmt::Display for Quantity {
    /// Writes bytes or cores without a suffix: `104857600`, `0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = ((self.nanos / NANOS).unsigned_abs(), (self.nanos % NANOS).unsigned_abs());
        let sign = if self.is_negative() { "-" } else { "" };
        write!(f, "{sign}{whole}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Reports whether `resource.ParseQuantity` accepts a text.
#[must_use]
pub fn is_quantity(text: &str) -> bool {
    read(text).is_ok()
}

/// Parses a text as `resource.ParseQuantity` does, including the result of `AsInt64`.
///
/// # Errors
/// The text is not a quantity.
pub(crate) fn read(text: &str) -> Result<Reading, InvalidQuantity> {
    if text.is_empty() {
        return Err(InvalidQuantity);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (number, suffix) = unsigned.split_at(unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len()));
    let (fraction, suffix) = match suffix.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("", suffix),
    };
    let unit = unit(suffix).ok_or(InvalidQuantity)?;
    let significant = number.trim_start_matches('0');
    // Upstream writes 0 for a number without significant digits, and counts that digit.
    let length = significant.len().max(1).saturating_add(fraction.len());
    let (scale, short) = match unit {
        Unit::Ten(exponent) => {
            // Wraps as upstream's int32 does.
            let scale = exponent.wrapping_sub(i32::try_from(fraction.len() % (1 << 31)).unwrap_or(0));
            (scale, length <= 18 && scale >= -9)
        }
        // Upstream estimates that 2^10 has three decimal digits.
        Unit::Two(bits) => (0, fraction.is_empty() && length + bits as usize * 3 / 10 < 15),
    };
    if !short && number.is_empty() && fraction.is_empty() {
        return Err(InvalidQuantity);
    }
    let nanos = match unit {
        Unit::Ten(_) => {
            let digits = significant.bytes().chain(fraction.bytes());
            decimal(digits, i64::try_from(significant.len() + fraction.len()).unwrap_or(i64::MAX), i64::from(scale))
        }
        Unit::Two(bits) => binary(significant, fraction, bits),
    };
    let amount = Quantity { nanos: if negative { -nanos } else { nanos } };
    let whole = short && scale >= 0 && amount.nanos.abs() != i128::MAX;
    let as_int64 = if whole { i64::try_from(amount.nanos / NANOS).ok() } else { None };
    Ok(Reading { amount, as_int64 })
}

/// Returns a quantity in the form in which upstream prints it (`Quantity.CanonicalizeBytes`): the largest unit without
/// a fraction, of the kind in which it is written. `None` if the text is not a quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let nanos = read(text).ok()?.amount.nanos;
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let is_binary = matches!(unit(suffix), Some(Unit::Two(_))) && nanos.abs() >= 1024 * NANOS;
    let reduced = |mut number: i128, base: i128, units: usize| {
        let mut at = 0;
        while number != 0 && number % base == 0 && at + 1 < units {
            (number, at) = (number / base, at + 1);
        }
        (number, at)
    };
    if is_binary {
        let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let (number, at) = reduced(i128::from(Quantity { nanos }.rounded_up()), 1024, units.len());
        return Some(format!("{number}{}", units.get(at)?));
    }
    if nanos == 0 {
        return Some("0".to_owned());
    }
    let units = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (number, at) = reduced(nanos, 1000, units.len());
    // In `1e3` the unit is an exponent. The unit E stands alone.
    let has_exponent = suffix.len() > 1 && suffix.starts_with(['e', 'E']);
    let unit = match at {
        3 => String::new(),
        at if has_exponent => format!("e{}", (i64::try_from(at).ok()? - 3) * 3),
        at => (*units.get(at)?).to_owned(),
    };
    Some(format!("{number}{unit}"))
}

/// Multiplier of a suffix: an exponent of ten or of two.
enum Unit {
    Ten(i32),
    Two(u32),
}

fn unit(suffix: &str) -> Option<Unit> {
    Some(match suffix {
        "n" => Unit::Ten(-9),
        "u" => Unit::Ten(-6),
        "m" => Unit::Ten(-3),
        "" => Unit::Ten(0),
        "k" => Unit::Ten(3),
        "M" => Unit::Ten(6),
        "G" => Unit::Ten(9),
        "T" => Unit::Ten(12),
        "P" => Unit::Ten(15),
        "E" => Unit::Ten(18),
        "Ki" => Unit::Two(10),
        "Mi" => Unit::Two(20),
        "Gi" => Unit::Two(30),
        "Ti" => Unit::Two(40),
        "Pi" => Unit::Two(50),
        "Ei" => Unit::Two(60),
        _ => {
            // Upstream parses an int64 and keeps the lower 32 bits.
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Unit::Ten(exponent as i32)
        }
    })
}

/// Returns `digits` times ten to the `scale` in billionths, rounded up. `count` is the number of digits.
fn decimal(digits: impl Iterator<Item = u8>, count: i64, scale: i64) -> i128 {
    // Position of the decimal point from the first digit, in billionths.
    let point = count.saturating_add(scale).saturating_add(9);
    let (mut nanos, mut rest, mut taken) = (0_i128, false, 0_i64);
    for digit in digits.map(|byte| i128::from(byte.wrapping_sub(b'0'))) {
        if taken < point {
            nanos = nanos.saturating_mul(10).saturating_add(digit);
        } else {
            rest |= digit != 0;
        }
        taken += 1;
    }
    if nanos != 0 {
        let missing = point.saturating_sub(taken).clamp(0, MAX_DIGITS + 9);
        for _ in 0..missing {
            nanos = nanos.saturating_mul(10);
        }
    }
    nanos.saturating_add(i128::from(rest))
}

/// Returns a number times two to the `bits` in billionths, rounded up. Upstream caps the result at 2^63-1 units.
fn binary(whole: &str, fraction: &str, bits: u32) -> i128 {
    let most = i128::from(i64::MAX) * NANOS;
    let grain = NANOS << bits;
    let Some(whole) = (if whole.is_empty() { Some(0) } else { whole.parse::<i128>().ok() }) else { return most };
    // From the last digit to the first, so that intermediate values stay below ten times the grain.
    let (mut part, mut rest) = (0_i128, false);
    for digit in fraction.bytes().rev().map(|byte| i128::from(byte.wrapping_sub(b'0'))) {
        let sum = digit * grain + part;
        rest |= sum % 10 != 0;
        part = sum / 10;
    }
    whole.checked_mul(grain).map_or(most, |nanos| nanos.saturating_add(part + i128::from(rest)).min(most))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> i128 {
        read(text).unwrap_or_else(|_| panic!("{text} is a quantity")).amount.nanos
    }

    #[test]
    fn prints_the_largest_unit_without_a_fraction() {
        for (text, printed) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1000Mi", "1000Mi"),
            ("512", "512"),
            ("1023Ki", "1023Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1000", "1k"),
            ("1.5", "1500m"),
            ("1500k", "1500k"),
            ("1e3", "1e3"),
            ("12E6", "12e6"),
            ("1E", "1E"),
            ("-2Gi", "-2Gi"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(printed), "{text}");
        }
        assert_eq!(canonical("ten"), None);
    }

    #[test]
    fn recognizes_quantities() {
        for good in
            ["0", "1Gi", "1.5Ei", ".5", "5.", "-1m", "+1E", "1e3", "1E-3", "100Mi", "1k", "1e+5", "00012", "1E0"]
        {
            assert!(is_quantity(good), "{good}");
        }
        for bad in [
            "",
            " ",
            "GiB",
            "1GiB",
            "1 Gi",
            " 1",
            "1K",
            "1e",
            "1e+",
            "1.2.3",
            "1mi",
            "ten",
            "0x1",
            "1Ee3",
            "1_0",
            "--1",
            "+-1",
            "1+",
            "1k3",
            "1e1.5",
            "1e99999999999999999999",
            "Inf",
            "NaN",
            "5%",
            "1\u{0661}",
            "1Ki1",
            "Pi",
            "Ei",
            "-Ei",
            ".Pi",
        ] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }

    #[test]
    fn reads_empty_number_as_zero_on_fast_path() {
        for zero in ["-", "+", ".", "-.", "Ki", "Ti", ".Gi", "m", "E", "e5", "0", "0Ei", "0.000e-99", "-0"] {
            assert_eq!(nanos(zero), 0, "{zero}");
        }
        // The fast path ends at nine digits below the point.
        assert!(is_quantity("e-9") && !is_quantity("e-10"));
    }

    #[test]
    fn amounts_are_exact() {
        for (text, amount) in [
            ("1", NANOS),
            ("-1", -NANOS),
            ("500m", NANOS / 2),
            ("0.5", NANOS / 2),
            ("1n", 1),
            ("0.1n", 1),
            ("0.0000000001", 1),
            ("-0.1n", -1),
            ("1.0000000001", NANOS + 1),
            ("1Ki", 1024 * NANOS),
            ("1.5Gi", 1_610_612_736 * NANOS),
            ("0.1Ki", 102_400_000_000),
            ("1e3", 1000 * NANOS),
            ("1E", 1_000_000_000_000_000_000 * NANOS),
            ("12345678901234567890", 12_345_678_901_234_567_890 * NANOS),
            ("8Ei", i128::from(i64::MAX) * NANOS),
            ("99999999999999999999999999999999999999999999Ki", i128::from(i64::MAX) * NANOS),
            ("1e4294967296", NANOS),
            ("1e100", i128::MAX),
            ("-1e100", -i128::MAX),
            ("1e-100", 1),
            ("1e-2000000000", 1),
            ("1e2000000000", i128::MAX),
        ] {
            assert_eq!(nanos(text), amount, "{text}");
        }
        // The only digit below a billionth is the last one.
        assert_eq!(nanos(&format!("1.{}1", "0".repeat(3000))), NANOS + 1);
        assert_eq!(nanos(&format!("1.{}1Ki", "0".repeat(3000))), 1024 * NANOS + 1);
        assert_eq!(nanos(&format!("{}1", "0".repeat(3000))), NANOS);
        assert_eq!(nanos(&"9".repeat(3000)), i128::MAX);
    }

    #[test]
    fn converts_to_int64_only_on_fast_path() {
        for (text, int64) in [
            ("10Mi", Some(10 << 20)),
            ("-10", Some(-10)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("9E", Some(9_000_000_000_000_000_000)),
            ("10E", None),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e30", None),
            ("0e99", Some(0)),
            ("1000m", None),
            ("1.0", None),
            ("1.5k", Some(1500)),
            ("1.5Gi", None),
            ("1Ei", None),
            ("1Pi", None),
            ("1Ti", Some(1 << 40)),
            ("99Ti", Some(99 << 40)),
            ("999Ti", None),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("1000000000000000000", None),
            ("0", Some(0)),
        ] {
            assert_eq!(read(text).map(|reading| reading.as_int64), Ok(int64), "{text}");
        }
    }

    #[test]
    fn adds_and_rounds() {
        let amount = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(amount("500m").plus(amount("1.5")), Quantity::whole(2));
        assert_eq!(amount("1e100").plus(amount("1")), amount("1e100"));
        for (text, rounded) in
            [("1.1", 2), ("-1.1", -2), ("2", 2), ("0.1n", 1), ("1e100", i64::MAX), ("-1e100", i64::MIN)]
        {
            assert_eq!(amount(text).rounded_up(), rounded, "{text}");
        }
        for (text, shown) in [("1.5Gi", "1610612736"), ("500m", "0.5"), ("-1u", "-0.000001"), ("0", "0")] {
            assert_eq!(amount(text).to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in "\\PC*") {
            let _ = read(&text);
        }

        #[test]
        fn keeps_sign_of_any_number_and_suffix(
            sign in "[+-]?", digits in "[0-9]{1,60}", fraction in "(\\.[0-9]{0,60})?", suffix in "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,12})?",
        ) {
            let amount = Quantity::parse(&format!("{sign}{digits}{fraction}{suffix}")).unwrap();
            let zero = digits.bytes().chain(fraction.bytes()).all(|byte| matches!(byte, b'0' | b'.'));
            prop_assert_eq!(amount.is_zero(), zero);
            prop_assert_eq!(amount.is_negative(), !zero && sign == "-");
        }

        #[test]
        fn reads_whole_numbers_unchanged(number in any::<i64>()) {
            prop_assert_eq!(Quantity::parse(&number.to_string()), Ok(Quantity::whole(number)));
        }
    }
}
