//! Quantities (apimachinery `resource.Quantity`, `pkg/api/resource/quantity.go`): which texts are one, and what they are
//! worth. The reading is upstream's scanner to the letter, with the oddities that its documented syntax does not tell:
//! `-`, `.` and `Gi` are quantities of zero.
//!
//! Whatever the text, reading takes time and memory that grow no faster than it does.

use std::fmt;

/// Thousand millionths: the finest grain of a quantity.
const NANOS: i128 = 1_000_000_000;
/// More digits than the largest value that is held has; beyond, only "larger than that" is known.
const MOST_DIGITS: i64 = 30;

/// An amount, exact to the billionth up to 1.7e29; anything larger is held as that, which no resource reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    /// Billionths, saturating.
    nanos: i128,
}

/// A text read as a quantity: its amount, and what of it upstream converts to an `int64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// The amount.
    pub amount: Quantity,
    /// What `Quantity.AsInt64` gives, which goes by the writing: nothing for `1.0` or `1000m`, with digits below the unit,
    /// nor for `1.5Gi` or `1Ei`, which upstream does not read the short way, though all of them are whole numbers.
    pub as_int64: Option<i64>,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAQuantity;

impl fmt::Display for NotAQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a quantity; write a number with or without a unit, such as 500m, 2, 100Mi or 1.5Gi")
    }
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A whole amount.
    #[must_use]
    pub fn whole(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS }
    }

    /// Reads a text as `resource.ParseQuantity` does; space around it is not taken.
    ///
    /// # Errors
    /// The text is no quantity.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        read(text).map(|reading| reading.amount)
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    /// The number of whole units, fractions rounded away from zero as in `Quantity.Value`; beyond an `i64` its bound.
    #[must_use]
    pub fn rounded_up(self) -> i64 {
        let whole = self.nanos / NANOS + (self.nanos % NANOS).signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

impl fmt::Display for Quantity {
    /// In bytes or cores, without a suffix: `104857600`, `0.5`.
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

/// Whether `resource.ParseQuantity` takes a text.
#[must_use]
pub fn is_quantity(text: &str) -> bool {
    read(text).is_ok()
}

/// Reads a text as `resource.ParseQuantity` does, and what `AsInt64` makes of it.
///
/// # Errors
/// The text is no quantity.
pub fn read(text: &str) -> Result<Reading, NotAQuantity> {
    if text.is_empty() {
        return Err(NotAQuantity);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (number, suffix) = unsigned.split_at(unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len()));
    let (fraction, suffix) = match suffix.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("", suffix),
    };
    let unit = unit(suffix).ok_or(NotAQuantity)?;
    let significant = number.trim_start_matches('0');
    // Upstream writes 0 for a number of which nothing is left, and counts that digit.
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
        return Err(NotAQuantity);
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

/// What a suffix multiplies with: a power of ten or of two.
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
            // An int64, of which upstream keeps the lower half.
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Unit::Ten(exponent as i32)
        }
    })
}

/// Billionths in `digits` times ten to the `scale`, rounded up; `count` is the number of digits.
fn decimal(digits: impl Iterator<Item = u8>, count: i64, scale: i64) -> i128 {
    // Where the point is, counted from the first digit, once everything is in billionths.
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
        let missing = point.saturating_sub(taken).clamp(0, MOST_DIGITS + 9);
        for _ in 0..missing {
            nanos = nanos.saturating_mul(10);
        }
    }
    nanos.saturating_add(i128::from(rest))
}

/// Billionths in a number times two to the `bits`, rounded up, at most the 2^63-1 units that upstream caps it to.
fn binary(whole: &str, fraction: &str, bits: u32) -> i128 {
    let most = i128::from(i64::MAX) * NANOS;
    let grain = NANOS << bits;
    let Some(whole) = (if whole.is_empty() { Some(0) } else { whole.parse::<i128>().ok() }) else { return most };
    // From the last digit to the first, so that nothing grows beyond ten times the grain.
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
    fn what_is_a_quantity() {
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
    fn nothing_before_a_suffix_is_zero_where_upstream_takes_the_short_way() {
        for zero in ["-", "+", ".", "-.", "Ki", "Ti", ".Gi", "m", "E", "e5", "0", "0Ei", "0.000e-99", "-0"] {
            assert_eq!(nanos(zero), 0, "{zero}");
        }
        // Nine digits below the point is as far as the short way goes.
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
        // Beyond the finest grain by a thousandth digit alone.
        assert_eq!(nanos(&format!("1.{}1", "0".repeat(3000))), NANOS + 1);
        assert_eq!(nanos(&format!("1.{}1Ki", "0".repeat(3000))), 1024 * NANOS + 1);
        assert_eq!(nanos(&format!("{}1", "0".repeat(3000))), NANOS);
        assert_eq!(nanos(&"9".repeat(3000)), i128::MAX);
    }

    #[test]
    fn only_the_short_way_leads_to_an_int64() {
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
    fn sums_and_rounding() {
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
        fn any_text_reads_or_not(text in "\\PC*") {
            let _ = read(&text);
        }

        #[test]
        fn any_number_and_suffix_keeps_its_sign(
            sign in "[+-]?", digits in "[0-9]{1,60}", fraction in "(\\.[0-9]{0,60})?", suffix in "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,12})?",
        ) {
            let amount = Quantity::parse(&format!("{sign}{digits}{fraction}{suffix}")).unwrap();
            let zero = digits.bytes().chain(fraction.bytes()).all(|byte| matches!(byte, b'0' | b'.'));
            prop_assert_eq!(amount.is_zero(), zero);
            prop_assert_eq!(amount.is_negative(), !zero && sign == "-");
        }

        #[test]
        fn whole_numbers_are_themselves(number in any::<i64>()) {
            prop_assert_eq!(Quantity::parse(&number.to_string()), Ok(Quantity::whole(number)));
        }
    }
}
