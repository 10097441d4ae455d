//! Node, pool pointers and rights of a node that joins, and the invariants of its requests.

use std::collections::BTreeMap;

use super::MachineState;
use super::sim_harness::{SimHarness, at, settings, source};
use super::sim_inputs::Behaviour;
use crate::events::{Effect, Event, Step};
use crate::joining::{JoinAnswer, JoinConfig, JoinError, JoinRequest, OwnNode};
use crate::ledger::{AgentState, Ledger, Phase, Trial};
use crate::settings::Settings;
use nodecfg_contract::nodeconfig::{Metadata, NodeConfig, NodeConfigSpec};
use nodecfg_contract::{ConfigSource, ContentHash};

/// Node, pointers and rights of a simulated node that joins.
#[derive(Debug, Clone, Default)]
pub(super) struct SimJoin {
    /// The Node. `None`: it is not registered.
    pub(super) node: Option<OwnNode>,
    /// Names of ConfigMaps by pool; `None` is the local configuration.
    pub(super) pointers: BTreeMap<String, Option<String>>,
    /// Behaviours from the start of the node, by ConfigMap name.
    pub(super) behaviours: BTreeMap<String, Behaviour>,
    pub(super) node_refused: bool,
    pub(super) create_refused: bool,
    pub(super) taint_refused: bool,
    /// Loses the response of the next creation.
    pub(super) lose_response: bool,
    /// Number of NodeConfigs that the agent created.
    pub(super) created: usize,
    /// Requests, in order.
    pub(super) requests: Vec<&'static str>,
    /// Whether the agent has read a NodeConfig, in this and in any process.
    pub(super) read: bool,
    pub(super) ever_read: bool,
}

/// Settings of an agent with `--fleet`.
pub(super) fn joining() -> Settings {
    Settings { joins: true, ..settings() }
}

/// Hash of the content of a ConfigMap.
pub(super) fn hash(name: &str) -> ContentHash {
    ContentHash::of(name.as_bytes())
}

/// A Node of this pool with the startup taint.
pub(super) fn tainted(pool: &str) -> SimJoin {
    let node = OwnNode { uid: "node-1".to_owned(), pool: Some(pool.to_owned()), tainted: true };
    SimJoin { node: Some(node), ..SimJoin::default() }
}

/// Ledger that `nodecfg-agent boot` leaves.
pub(super) fn booted(name: &str) -> Ledger {
    let mut seeded = source(name);
    let map = seeded.config_map_mut().unwrap();
    (map.uid, map.resource_version) = (Some("uid-pointer".to_owned()), Some("7".to_owned()));
    Ledger {
        assigned: Some(seeded.clone()),
        last_known_good: None,
        agent_state: AgentState {
            phase: Phase::Trying(Trial { started: at(0.0), ..Trial::default() }),
            active: Some(seeded),
            content_hash: Some(hash(name).to_string()),
            pool: Some("cpu".to_owned()),
            booted: true,
            ..AgentState::default()
        },
    }
}

impl SimHarness {
    /// Node without a NodeConfig.
    pub(super) fn without_node_config(seed: u64, ledger: Ledger, settings: Settings, join: SimJoin) -> Self {
        Self::with(seed, ledger, settings, None, join)
    }

    /// Node of the pool `cpu` with the startup taint. The pointer of the pool names `a`.
    pub(super) fn fresh(seed: u64) -> Self {
        Self::fresh_with(seed, |_| ())
    }

    /// The same with a change of the Node, the pointers or the rights.
    pub(super) fn fresh_with(seed: u64, change: impl FnOnce(&mut SimJoin)) -> Self {
        let mut join = tainted("cpu");
        join.pointers.insert("cpu".to_owned(), Some("a".to_owned()));
        change(&mut join);
        let mut sim = Self::without_node_config(seed, Ledger::default(), joining(), join);
        sim.put_proven("a");
        sim
    }

    /// Creates a ConfigMap with the hash of its content.
    pub(super) fn put_proven(&mut self, name: &str) {
        self.put_config_map(name, "1", crate::events::ConfigCheck::Accepted);
        self.config_maps.get_mut(name).unwrap().hash = Some(hash(name).to_string());
    }

    pub(super) fn is_tainted(&self) -> bool {
        self.join.node.as_ref().is_some_and(|node| node.tainted)
    }

    /// Answers a request like an API server.
    pub(super) fn answer_join(&mut self, request: JoinRequest) -> JoinAnswer {
        let gone = || JoinError::Failed("connection refused".to_owned());
        let refused = || JoinError::Refused("forbidden".to_owned());
        let down = self.faults.api_down;
        match request {
            JoinRequest::ReadNode if self.join.node_refused => JoinAnswer::Node(Err(refused())),
            JoinRequest::ReadNode => {
                self.join.requests.push("node");
                JoinAnswer::Node(self.join.node.clone().filter(|_| !down).ok_or_else(gone))
            }
            JoinRequest::ReadPointer(pool) => {
                self.join.requests.push("pointer");
                let pointer = self.join.pointers.get(&pool).cloned();
                let config = pointer.map(|name| {
                    name.map(|name| JoinConfig { source: source(&name), hash: hash(&name), placement: None })
                });
                let missing = || JoinError::NoPointer("it does not exist".to_owned());
                JoinAnswer::Pointer(if down { Err(gone()) } else { config.ok_or_else(missing) })
            }
            JoinRequest::Create { .. } if down => JoinAnswer::Created(Err(gone())),
            JoinRequest::Create { .. } if self.join.create_refused => JoinAnswer::Created(Err(refused())),
            JoinRequest::Create { spec, .. } => {
                self.join.requests.push("create");
                JoinAnswer::Created(self.create(*spec).ok_or_else(gone))
            }
            JoinRequest::RemoveTaint(_) if down => JoinAnswer::TaintRemoved(Err(gone())),
            JoinRequest::RemoveTaint(_) if self.join.taint_refused => JoinAnswer::TaintRemoved(Err(refused())),
            JoinRequest::RemoveTaint(uid) => {
                self.join.requests.push("taint");
                let node = self.join.node.as_mut().filter(|node| node.uid == uid);
                JoinAnswer::TaintRemoved(node.map(|node| node.tainted = false).ok_or_else(gone))
            }
        }
    }

    /// Creates the NodeConfig unless one exists. `None`: the response is lost.
    fn create(&mut self, spec: NodeConfigSpec) -> Option<Option<Box<NodeConfig>>> {
        if self.config.is_some() {
            return Some(None);
        }
        self.join.created += 1;
        let created = NodeConfig {
            metadata: Metadata { generation: 1, uid: format!("uid-{}", self.join.created), ..Metadata::default() },
            spec,
            ..NodeConfig::default()
        };
        self.config = Some(created.clone());
        self.deliver_node_config();
        let lost = std::mem::take(&mut self.join.lose_response);
        (!lost).then(|| Some(Box::new(created)))
    }

    /// Checks the requests of a step: no creation after a NodeConfig was read, and no removal of the taint from a node
    /// whose kubelet is unhealthy or runs another configuration than its assignment.
    pub(super) fn check_join(&mut self, event: &Event, state: &MachineState, step: &Step) {
        match event {
            Event::Started { .. } => self.join.read = false,
            Event::NodeConfigRead(Some(_)) => (self.join.read, self.join.ever_read) = (true, true),
            _ => {}
        }
        for effect in &step.effects {
            let Effect::Join(request) = effect else { continue };
            match request {
                JoinRequest::ReadNode => {}
                JoinRequest::ReadPointer(_) => assert!(!self.join.read && state.ledger == Ledger::default()),
                JoinRequest::Create { spec, .. } => {
                    assert!(!self.join.read, "created again");
                    let ledger = &state.ledger;
                    assert!(!ledger.agent_state.booted || !self.join.ever_read || self.faults.disk_full);
                    assert!(ledger.agent_state.failure.is_none());
                    let source = spec.config_source.as_ref();
                    let map = source.and_then(|source| source.config_map.as_ref()).unwrap();
                    assert_eq!((&map.uid, &map.resource_version), (&None, &None));
                    let names = |source: Option<&ConfigSource>| source.map(ToString::to_string);
                    if ledger.assigned.is_some() {
                        assert_eq!(names(ledger.assigned.as_ref()), names(source));
                    }
                }
                JoinRequest::RemoveTaint(_) => {
                    let ledger = &state.ledger;
                    assert_eq!(ledger.agent_state.active, ledger.assigned);
                    assert!(ledger.agent_state.failure.is_none());
                    let settled = ledger.agent_state.phase == Phase::Settled;
                    assert!(settled || self.healthy_since.is_some(), "removed the taint of an unhealthy node");
                }
            }
        }
    }
}
