//! Numbers as Go's encoding/json spells them.

/// A float64 on the way from YAML to JSON (`encode.go`, floatEncoder): with an exponent below 1e-6 and from 1e21 on.
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

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn as_go_spells_them() {
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
}
