//! The table of bounds: between which values the kubelet wants a number or a duration (`data/kubelet/bounds.csv`), by the
//! rule that asks for it. The field, the versions and the source are the rule's.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::duration;
use super::table::{self, Spans};

static TEXT: &str = include_str!("../../data/kubelet/bounds.csv");
static TABLE: LazyLock<BTreeMap<String, Bounds>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(|cells| bounds(&cells)).collect());

/// A number, or a duration in nanoseconds, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// The number, or the nanoseconds.
    pub value: i64,
    /// As in the table: `65535`, `1ms`.
    pub text: String,
}

/// What is allowed for the field of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The least value, by version.
    pub least: Spans<Amount>,
    /// The greatest value, by version.
    pub most: Spans<Amount>,
    /// One more value that is allowed although it is out of bounds.
    pub also: Option<Amount>,
    /// The feature gate without which the kubelet does not look.
    pub gate: Option<String>,
}

/// The bounds that a rule holds its field to.
#[must_use]
pub fn lookup(rule: &str) -> Option<&'static Bounds> {
    TABLE.get(rule)
}

fn bounds(cells: &[String]) -> Option<(String, Bounds)> {
    let [rule, least, most, also, gate] = cells else { return None };
    let bounds = Bounds {
        least: Spans::read(least, amount)?,
        most: Spans::read(most, amount)?,
        also: if also.is_empty() { None } else { Some(amount(also)?) },
        gate: (!gate.is_empty()).then(|| gate.clone()),
    };
    Some((rule.clone(), bounds))
}

fn amount(text: &str) -> Option<Amount> {
    let value = text.parse().ok().or_else(|| duration::nanoseconds(text).ok())?;
    Some(Amount { value, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::{Minor, rules};

    #[test]
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("rule,least,most,also,gate"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads, and no rule appears twice");
        for (id, bounds) in TABLE.iter() {
            let rule = rules::lookup(id).unwrap_or_else(|| panic!("there is no rule {id}"));
            assert_eq!(rule.fields.len(), 1, "{id} is about one field");
            for minor in Minor::all().filter(|minor| rule.applies_to(*minor)) {
                let (least, most) = (bounds.least.at(minor), bounds.most.at(minor));
                assert!(least.is_some() || most.is_some(), "{id} says something in {minor}");
                if let (Some(least), Some(most)) = (least, most) {
                    assert!(least.value < most.value, "{id}");
                }
            }
        }
    }

    #[test]
    fn bounds_change_between_versions() {
        let least = |minor| lookup("cpu-cfs-quota-period").and_then(|b| b.least.at(Minor(minor))).map(|a| a.value);
        assert_eq!((least(25), least(26)), (Some(1_000), Some(1_000_000)));
    }
}
