//! Creation time of a Node, and nodes that never had a configuration.

use std::fmt;
use std::num::NonZeroI64;
use std::time::Duration;

use jiff::Timestamp;

use super::Node;

/// Creation time of an object in whole seconds, as API servers write it. Takes 8 bytes also if it is optional, because
/// there may be thousands of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreationTime(NonZeroI64);

impl CreationTime {
    /// Creation time. `None` for the first second of 1970, which no API server writes.
    #[must_use]
    pub fn new(at: Timestamp) -> Option<Self> {
        NonZeroI64::new(at.as_second()).map(Self)
    }

    /// Reads the time as API servers write it. `None` if it is unreadable.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::new(text.parse().ok()?)
    }

    /// The time.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_second(self.0.get()).unwrap_or_default()
    }
}

impl Node {
    /// Creation time of a node that never had a configuration, as far as the cluster shows: it has no assignment, and
    /// reports no assigned, active or last known good ConfigMap. `None` for other nodes, for nodes being deleted, and if
    /// the creation time is unknown.
    #[must_use]
    pub fn new_since(&self) -> Option<Timestamp> {
        let had_configuration = self.assigned_before || self.sources().next().is_some();
        // The source may be the unreadable value.
        let is_known = !self.is_unreadable() && !self.deleting;
        self.created.filter(|_| is_known && !had_configuration).map(CreationTime::timestamp)
    }
}

/// Age of a node in its largest whole unit, as a text: `40s`, `12m`, `5h`, `3d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(Duration);

impl Age {
    /// Time from `then` to `now`. Zero if `then` is in the future, because the clocks differ.
    #[must_use]
    pub fn between(then: Timestamp, now: Timestamp) -> Self {
        Self(Duration::try_from(now.duration_since(then)).unwrap_or_default())
    }

    /// The age as a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Age {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 86_400, seconds / 3600, seconds / 60) {
            (0, 0, 0) => write!(f, "{seconds}s"),
            (0, 0, minutes) => write!(f, "{minutes}m"),
            (0, hours, _) => write!(f, "{hours}h"),
            (days, ..) => write!(f, "{days}d"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Obstacle;
    use nodecfg_contract::names::NodeName;
    use nodecfg_contract::{ConfigSource, UnreadableField};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn created() -> Node {
        Node { created: CreationTime::new(at(1_800_000_000)), ..Node::named(NodeName::new("n1").unwrap()) }
    }

    #[test]
    fn optional_creation_time_takes_8_bytes() {
        assert_eq!(size_of::<Option<CreationTime>>(), 8);
        assert_eq!(CreationTime::new(at(5)).map(CreationTime::timestamp), Some(at(5)));
        assert_eq!(CreationTime::new(at(0)), None);
    }

    #[test]
    fn node_without_any_source_is_new() {
        assert_eq!(created().new_since(), Some(at(1_800_000_000)));
        assert_eq!(Node { created: None, ..created() }.new_since(), None);
    }

    #[test]
    fn node_that_had_a_source_is_not_new() {
        let source = || Some(ConfigSource::config_map("kube-system", "c", "kubelet"));
        assert_eq!(Node { source: source(), ..created() }.new_since(), None);
        assert_eq!(Node { assigned_before: true, ..created() }.new_since(), None);
        for place in 0..3 {
            let mut node = created();
            let status = &mut node.status;
            *[&mut status.assigned, &mut status.active, &mut status.last_known_good][place] = source();
            assert_eq!(node.new_since(), None, "{place}");
        }
    }

    #[test]
    fn unknown_or_deleted_node_is_not_new() {
        let field = UnreadableField { field: "spec.configSource".to_owned(), reason: "x".to_owned() };
        assert_eq!(Node { obstacle: Some(Obstacle::Unreadable(field)), ..created() }.new_since(), None);
        assert_eq!(Node { deleting: true, ..created() }.new_since(), None);
    }

    #[test]
    fn future_creation_is_age_zero() {
        assert_eq!(Age::between(at(100), at(130)).duration(), Duration::from_secs(30));
        assert_eq!(Age::between(at(100), at(40)).duration(), Duration::ZERO);
        let text = |seconds| Age::between(at(0), at(seconds)).to_string();
        assert_eq!([-5, 59, 60, 7200, 200_000].map(text), ["0s", "59s", "1m", "2h", "2d"]);
    }
}
