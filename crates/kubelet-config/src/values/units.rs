//! Units of amounts of memory and disk: the fields that hold such amounts, and the unit that an author probably means.

use crate::values::quantity::Quantity;

/// Smaller amounts of memory and disk probably have a wrong unit.
pub(crate) const MIN_BYTES: i64 = 1 << 20;

/// Reports whether a key of a map of KubeletConfiguration has an amount of memory or disk.
pub(crate) fn counts_bytes(map: &str, key: &str) -> bool {
    match map {
        "kubeReserved" | "systemReserved" => matches!(key, "memory" | "ephemeral-storage"),
        "evictionHard" | "evictionSoft" | "evictionMinimumReclaim" => {
            key != "pid.available" && key.ends_with(".available")
        }
        _ => false,
    }
}

/// Returns the quantity that a text such as `1GB`, `1 gib` or `1g` probably means: `1Gi`. `None` for a quantity, and
/// for a text that is no number with such a unit.
pub(crate) fn intended(text: &str) -> Option<String> {
    if Quantity::parse(text).is_ok() {
        return None;
    }
    let (number, unit) = text.trim().split_at(text.trim().find(|c: char| c.is_ascii_alphabetic())?);
    let unit = unit.to_ascii_lowercase();
    let prefix = unit.strip_suffix("bytes").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    let prefix = prefix.strip_suffix('i').unwrap_or(prefix).to_ascii_uppercase();
    let is_prefix = ["K", "M", "G", "T", "P", "E"].contains(&prefix.as_str());
    let meant = format!("{}{}", number.trim(), if is_prefix { format!("{prefix}i") } else { String::new() });
    let is_bytes = is_prefix || (prefix.is_empty() && unit != "i");
    (is_bytes && number.trim().ends_with(|c: char| c.is_ascii_digit()) && Quantity::parse(&meant).is_ok())
        .then_some(meant)
}

/// Returns the same number with the binary unit, such as `1Gi` for `1G`. `None` for a text without a decimal unit.
pub(crate) fn binary(text: &str) -> Option<String> {
    let number = text.strip_suffix(['k', 'M', 'G', 'T', 'P', 'E'])?;
    let unit = text.get(number.len()..)?.to_ascii_uppercase();
    number.ends_with(|c: char| c.is_ascii_digit()).then(|| format!("{number}{unit}i"))
}

/// Returns the fix for a value that must be a quantity of bytes: the quantity that it probably means, else an example.
#[must_use]
pub fn quantity_help(text: &str, example: &str) -> String {
    intended(text).map_or_else(|| format!("write a quantity such as {example}"), |meant| format!("write {meant:?}"))
}

/// Returns the fix for a number where the field at `path` takes text with a unit. `None` if the quoted number is right.
#[must_use]
pub fn number_help(path: &str, number: i128) -> Option<String> {
    // Keys with dots are also written in brackets.
    let (map, key) = path.strip_suffix("\"]").map_or_else(|| path.split_once('.'), |path| path.split_once("[\""))?;
    if number <= 0 {
        return None;
    }
    if map == "evictionSoftGracePeriod" {
        return Some(format!("write \"{number}s\" for seconds"));
    }
    // A quoted number is a number of bytes.
    if !counts_bytes(map, key) || number >= i128::from(MIN_BYTES) {
        return None;
    }
    let binary = format!("write \"{number}Mi\" for mebibytes");
    let may_be_share = map.starts_with("eviction") && number <= 100;
    Some(if may_be_share { format!("write \"{number}%\" for a share of the capacity, or {binary}") } else { binary })
}

/// Returns the fix for a text that is no duration in Go's syntax.
#[must_use]
pub fn duration_help(text: &str) -> String {
    match text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        Some(days) => format!("write {}h: a day is no unit", u64::from(days) * 24),
        None if text.parse::<u32>().is_ok() => seconds_help(text),
        None => "write a number and a unit (ns, us, ms, s, m, h), such as 30s, 10m or 1h30m".to_owned(),
    }
}

/// Returns the fix for a number where a field takes a duration.
#[must_use]
pub fn seconds_help(number: &str) -> String {
    format!("write {number}s for seconds, or another unit: ms, m, h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposes_binary_units() {
        for (text, meant) in [
            ("1GB", Some("1Gi")),
            ("1GiB", Some("1Gi")),
            ("1gi", Some("1Gi")),
            ("1.5 gb", Some("1.5Gi")),
            ("512mb", Some("512Mi")),
            ("64KB", Some("64Ki")),
            ("64K", Some("64Ki")),
            ("10 bytes", Some("10")),
            ("1G", None),
            ("1Gi", None),
            ("10%", None),
            ("1d", None),
            ("GB", None),
            ("i", None),
            ("5i", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(intended(text).as_deref(), meant, "{text}");
        }
        let binary: Vec<_> = ["1G", "1000M", "5k", "1Gi", "5", "5m", "G"].map(binary).into();
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(binary, [of("1Gi"), of("1000Mi"), of("5Ki"), None, None, None, None]);
    }
}
