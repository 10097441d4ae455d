//! Whether a value went up or down, as far as two texts can be compared: numbers, shares in percent,
//! quantities, booleans.

use super::quantity::Quantity;

/// Which way a value went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// It is more than before, or switched on.
    Raised,
    /// It is less than before, or switched off.
    Lowered,
}

/// Which way a value went from `old` to `new`, as written in a file. `None` when they are equal or cannot be compared, as a
/// share with an amount.
#[must_use]
pub fn direction(old: &str, new: &str) -> Option<Direction> {
    if let (Ok(old), Ok(new)) = (old.parse::<bool>(), new.parse::<bool>()) {
        return (old != new).then_some(if new { Direction::Raised } else { Direction::Lowered });
    }
    let order = match (old.strip_suffix('%'), new.strip_suffix('%')) {
        (Some(old), Some(new)) => amount(old)?.cmp(&amount(new)?),
        (None, None) => amount(old)?.cmp(&amount(new)?),
        _ => return None,
    };
    match order {
        std::cmp::Ordering::Less => Some(Direction::Raised),
        std::cmp::Ordering::Greater => Some(Direction::Lowered),
        std::cmp::Ordering::Equal => None,
    }
}

/// A negative number often stands for "no limit", which no order holds for.
fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok().filter(|amount| text.starts_with(|c: char| c.is_ascii_digit()) && !amount.is_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_compared() {
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
            ("static", "none", None),
            ("", "1", None),
        ] {
            assert_eq!(direction(old, new), expected, "{old} to {new}");
        }
    }
}
