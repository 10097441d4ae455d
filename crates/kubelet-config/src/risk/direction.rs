//! The direction of a change between two numbers, percentages, quantities, durations or booleans, or between a text and
//! none.

use crate::values::duration;
use crate::values::quantity::Quantity;

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The value is larger than before, or switched on.
    Raised,
    /// The value is smaller than before, or switched off.
    Lowered,
}

/// Returns the direction from `old` to `new`, as written in a file. `None` for equal values, and for values that
/// cannot be compared, such as a percentage and an amount.
#[must_use]
pub fn direction(old: &str, new: &str) -> Option<Direction> {
    // An empty path or address switches something off.
    match (old.is_empty(), new.is_empty()) {
        (true, true) => return None,
        (true, false) => return Some(Direction::Raised),
        (false, true) => return Some(Direction::Lowered),
        (false, false) => {}
    }
    if let (Ok(old), Ok(new)) = (old.parse::<bool>(), new.parse::<bool>()) {
        return (old != new).then_some(if new { Direction::Raised } else { Direction::Lowered });
    }
    let order = match (old.strip_suffix('%'), new.strip_suffix('%')) {
        (Some(old), Some(new)) => amount(old)?.cmp(&amount(new)?),
        (None, None) => match (amount(old), amount(new)) {
            (Some(old), Some(new)) => old.cmp(&new),
            _ => duration::nanoseconds(old).ok()?.cmp(&duration::nanoseconds(new).ok()?),
        },
        _ => return None,
    };
    match order {
        std::cmp::Ordering::Less => Some(Direction::Raised),
        std::cmp::Ordering::Greater => Some(Direction::Lowered),
        std::cmp::Ordering::Equal => None,
    }
}

/// Returns the amount of a text that starts with a digit. Negative numbers have no order, because they often mean "no
/// limit".
fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok().filter(|amount| text.starts_with(|c: char| c.is_ascii_digit()) && !amount.is_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_values() {
        for (old, new, expected) in [
            ("110", "250", Some(Direction::Raised)),
            ("250", "110", Some(Direction::Lowered)),
            ("100Mi", "1Gi", Some(Direction::Raised)),
            ("1Gi", "1000Mi", Some(Direction::Lowered)),
            ("1", "500m", Some(Direction::Lowered)),
            ("10%", "5%", Some(Direction::Lowered)),
            ("5%", "7.5%", Some(Direction::Raised)),
            ("1Gi", "1024Mi", None),
            ("10%", "1Gi", None),
            ("false", "true", Some(Direction::Raised)),
            ("true", "false", Some(Direction::Lowered)),
            ("true", "true", None),
            ("-1", "100", None),
            ("30s", "5m0s", Some(Direction::Raised)),
            ("2m0s", "1m0s", Some(Direction::Lowered)),
            ("60s", "1m0s", None),
            ("30s", "1Gi", None),
            ("static", "none", None),
            ("", "1", Some(Direction::Raised)),
            ("/etc/manifests", "", Some(Direction::Lowered)),
            ("/etc/manifests", "/srv/manifests", None),
            ("", "", None),
        ] {
            assert_eq!(direction(old, new), expected, "{old} to {new}");
        }
    }
}
