//! Pods for the tests of drains.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::fixtures::{fleet, node_name, pool_name};
use nodecfg_observed::pods::Controller;
use nodecfg_observed::{Drain, DrainMark, Pod};

/// Pod of a ReplicaSet in the namespace `web`. Its uid follows from its name.
#[must_use]
pub fn pod(name: &str) -> Pod {
    Pod {
        namespace: "web".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        node: node_name("n1"),
        labels: BTreeMap::new(),
        controller: Some(Controller { kind: "ReplicaSet".to_owned(), name: "web".to_owned() }),
        mirror: false,
        finished: false,
        deleting: false,
        pending: false,
        ready: true,
        priority: 0,
        empty_dir: false,
        claims: 0,
        tolerates_drain: false,
        exclusive_cpus: false,
        rejection: None,
    }
}

/// Pod of a DaemonSet.
#[must_use]
pub fn daemon(name: &str) -> Pod {
    let controller = Some(Controller { kind: "DaemonSet".to_owned(), name: name.to_owned() });
    Pod { controller, tolerates_drain: true, ..pod(name) }
}

/// Mark of a drain of a pool by the fleet of the fixtures.
#[must_use]
pub fn mark(pool: &str) -> DrainMark {
    let drain = Drain {
        fleet: fleet(),
        pool: pool_name(pool),
        to: None,
        from: None,
        since: Timestamp::UNIX_EPOCH,
        added: BTreeSet::new(),
    };
    DrainMark { tainted: true, drain: Some(drain) }
}
