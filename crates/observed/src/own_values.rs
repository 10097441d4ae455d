//! What a node's own configuration has for the fields of its overlay.

use std::collections::BTreeMap;

use nodecfg_contract::nodeconfig::EffectiveStatus;

/// Values of a node's own configuration for the fields that its active overlay sets (`status.effective.beneath`). Such a field
/// returns to its own value when it leaves the overlay.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnValues {
    /// Values as JSON, by path.
    pub values: BTreeMap<String, String>,
    /// Whether these are all of them. If so, a field that is missing here has no own value.
    pub complete: bool,
}

impl OwnValues {
    /// The values that an agent reports.
    #[must_use]
    pub fn of(status: EffectiveStatus) -> Self {
        let complete = status.beneath_more == 0;
        Self { values: status.beneath.into_iter().map(|own| (own.field, own.value)).collect(), complete }
    }

    /// The part of these values that concerns fields with these paths.
    #[must_use]
    pub fn at<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Self {
        let value = |path: &str| Some((path.to_owned(), self.values.get(path)?.clone()));
        Self { values: paths.into_iter().filter_map(value).collect(), complete: self.complete }
    }
}
