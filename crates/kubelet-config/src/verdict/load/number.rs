//! Numbers in the notation of Go's encoding/json.

/// Formats a float64 as Go does on the way from YAML to JSON (`encode.go`, floatEncoder): with an exponent below 1e-6
/// and from 1e21 on.
pub(super) fn json(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => text,
    }
}

/// Parses a whole number as json-iterator does for a field of 32 or 64 bits (`iter_int.go`, readUint32 and
/// readUint64). After each digit, json-iterator only checks whether the number became smaller. It therefore reads
/// some numbers far out of range as other numbers. `None` if it detects the overflow.
pub(super) fn jsoniter(sign: &str, digits: &str, bits: u32) -> Option<i128> {
    let range: u128 = 1 << bits;
    let largest_safe = (range - 1) / 10 - 1;
    let mut value: u128 = 0;
    for digit in digits.bytes() {
        let next = (value * 10 + u128::from(digit.wrapping_sub(b'0'))) % range;
        if value > largest_safe && next < value {
            return None;
        }
        value = next;
    }
    let value = i128::try_from(value).ok()?;
    Some(if sign == "-" { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::{json, jsoniter};

    #[test]
    fn formats_numbers_as_go_does() {
        for (value, text) in [
            (5.0, "5"),
            (-0.0, "-0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (0.25, "0.25"),
            (9_007_199_254_740_993.0, "9007199254740992"),
        ] {
            assert_eq!(json(value), text);
        }
    }

    #[test]
    fn parses_numbers_as_json_iterator_does() {
        for (sign, digits, bits, value) in [
            ("", "0", 32, Some(0)),
            ("-", "2147483648", 32, Some(-2_147_483_648)),
            ("", "4294967295", 32, Some(4_294_967_295)),
            ("", "4294967296", 32, None),
            ("", "10000000000", 32, Some(1_410_065_408)),
            ("", "100000000000", 32, None),
            ("", "18446744073709551615", 64, Some(18_446_744_073_709_551_615)),
            ("", "18446744073709551616", 64, None),
            ("", "30000000000000000000", 64, Some(11_553_255_926_290_448_384)),
            ("", "100000000000000000000", 64, None),
        ] {
            assert_eq!(jsoniter(sign, digits, bits), value, "{sign}{digits}");
        }
    }
}
