//! Joining: creates the NodeConfig of the own node, and removes the startup taint.
//!
//! A NodeConfig is created only if none has been read, and only with
//! - the assignment of `nodecfg-agent boot`, which the kubelet has run since its first start; or
//! - the pointer of the pool, on a node without assignment that has the startup taint. Pods may run on a node without
//!   the taint, and restarts there belong to rollouts.
//!
//! A deleted NodeConfig is never created again. `booted` in the ledger ends with the first NodeConfig that is read;
//! everything else here is volatile. A restarted agent reads its Node and the pointer again.

use jiff::Timestamp;

use super::backoff::{Backoff, after};
use super::{MachineState, StepBuilder, kubelet_messages};
use crate::events::Effect;
use crate::joining::{JoinAnswer, JoinConfig, JoinError, JoinRequest, OwnNode};
use crate::ledger::Phase;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigSpec};

/// Progress of joining.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Joining {
    /// Request in progress.
    under_way: Option<JoinRequest>,
    pub(super) backoff: Backoff,
    /// Whether the node had no NodeConfig at the last read.
    missing: bool,
    /// Whether this process has read a NodeConfig of the node.
    seen: bool,
    /// The Node, once read.
    node: Option<OwnNode>,
    /// Configuration that the pointer names, once read; `Some(None)` is the local configuration.
    pointer: Option<Option<JoinConfig>>,
    /// Delay after the server refused to remove the taint. The agent has the kubelet's identity, or lacks the right. The
    /// next read of the NodeConfig after the delay makes a further attempt.
    pub(super) taint_backoff: Backoff,
    /// Reason why the node cannot join, and the one that was announced last.
    problem: Option<String>,
    announced: Option<String>,
}

impl Joining {
    /// Records a NodeConfig, or that it is missing.
    pub(super) fn record_node_config(&mut self, old: Option<&NodeConfig>, new: Option<&NodeConfig>) {
        let uid = |config: &NodeConfig| config.metadata.uid.clone();
        if old.is_some() && old.map(uid) != new.map(uid) {
            // The Node may be another one, too, or an earlier read of its taint may be out of date.
            self.forget();
        }
        self.missing = new.is_none();
        if new.is_some() && !self.seen {
            self.seen = true;
            self.problem = None;
            self.backoff.clear();
        }
    }

    /// Forgets what was read, so that the next attempt starts with the Node.
    fn forget(&mut self) {
        self.node = None;
        self.pointer = None;
    }

    /// Reports whether an answer belongs to the request in progress.
    pub(super) fn expects(&self, answer: &JoinAnswer) -> bool {
        matches!(
            (&self.under_way, answer),
            (Some(JoinRequest::ReadNode), JoinAnswer::Node(_))
                | (Some(JoinRequest::ReadPointer(_)), JoinAnswer::Pointer(_))
                | (Some(JoinRequest::Create { .. }), JoinAnswer::Created(_))
                | (Some(JoinRequest::RemoveTaint(_)), JoinAnswer::TaintRemoved(_))
        )
    }
}

impl MachineState {
    /// Records the answer to a request.
    pub(super) fn record_join(&mut self, answer: &JoinAnswer, now: Timestamp) {
        self.volatile.joining.under_way = None;
        let joining = &mut self.volatile.joining;
        match answer {
            JoinAnswer::Node(Ok(node)) => joining.node = Some(node.clone()),
            JoinAnswer::Pointer(Ok(config)) => joining.pointer = Some(config.clone()),
            // The response is a read, too. A watch may have delivered a later state.
            JoinAnswer::Created(Ok(Some(config))) => {
                if !joining.seen {
                    self.record_node_config(Some(config));
                }
            }
            // The watch shows it, unless it belongs to an earlier Node and will be deleted.
            JoinAnswer::Created(Ok(None)) => self.join_failed(None, now),
            JoinAnswer::TaintRemoved(Ok(())) => {
                joining.backoff.clear();
                if let Some(node) = &mut joining.node {
                    node.tainted = false;
                }
            }
            JoinAnswer::TaintRemoved(Err(JoinError::Refused(why))) => {
                joining.problem = Some(kubelet_messages::taint_refused(why));
                // Only an administrator can change that. The NodeConfig is created meanwhile.
                joining.taint_backoff.hold(after(now, self.volatile.settings.resync_interval));
            }
            JoinAnswer::Node(Err(error))
            | JoinAnswer::Pointer(Err(error))
            | JoinAnswer::Created(Err(error))
            | JoinAnswer::TaintRemoved(Err(error)) => {
                let problem = match error {
                    JoinError::Failed(_) => None,
                    JoinError::Refused(why) | JoinError::NoPointer(why) => Some(kubelet_messages::not_joined(why)),
                };
                let is_refused = matches!(error, JoinError::Refused(_));
                self.join_failed(problem, now);
                if is_refused {
                    // Only an administrator can change that.
                    let volatile = &mut self.volatile;
                    volatile.joining.backoff.hold(after(now, volatile.settings.resync_interval));
                }
            }
        }
    }

    /// Records a failed attempt. The next one starts with the Node.
    fn join_failed(&mut self, problem: Option<String>, now: Timestamp) {
        let volatile = &mut self.volatile;
        volatile.joining.forget();
        // A node with a NodeConfig has joined.
        if problem.is_some() && !volatile.joining.seen {
            volatile.joining.problem = problem;
        }
        volatile.joining.backoff.fail(&mut volatile.jitter, now);
    }

    /// Announces the creation of the NodeConfig.
    pub(super) fn handle_join(&mut self, answer: &JoinAnswer, builder: &mut StepBuilder) {
        if let JoinAnswer::Created(Ok(Some(config))) = answer {
            let source = config.spec.config_source.as_ref();
            builder.step.effects.push(Effect::Announce(kubelet_messages::joined(source)));
        }
    }

    /// Ends the state of a booted node in the ledger, once a NodeConfig was read.
    pub(super) fn end_boot(&mut self) {
        if self.volatile.joining.seen {
            self.ledger.agent_state.booted = false;
        }
    }

    /// Sends the next request of joining if one is due, and announces a new problem.
    pub(super) fn join(&mut self, builder: &mut StepBuilder) {
        let lacks_label = |node: &OwnNode| node.tainted && node.pool.is_none();
        if self.may_join_by_pointer() && self.volatile.joining.node.as_ref().is_some_and(lacks_label) {
            self.join_failed(Some(kubelet_messages::POOL_LABEL_MISSING.to_owned()), builder.now);
        }
        let joining = &mut self.volatile.joining;
        if joining.problem != joining.announced {
            joining.announced.clone_from(&joining.problem);
            if let Some(problem) = &joining.problem {
                builder.step.effects.push(Effect::Announce(kubelet_messages::join_problem(problem)));
            }
        }
        if joining.under_way.is_some() || joining.backoff.waits(builder.now) {
            return;
        }
        if let Some(request) = self.next_join_request(builder.now) {
            self.volatile.joining.under_way = Some(request.clone());
            builder.step.effects.push(Effect::Join(request));
        }
    }

    /// Time of the next request. `None` while one is in progress, or if none is needed.
    pub(super) fn join_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let joining = &self.volatile.joining;
        if joining.under_way.is_some() {
            return None;
        }
        self.next_join_request(now).map(|_| joining.backoff.until().map_or(now, |until| until.max(now)))
    }

    fn next_join_request(&self, now: Timestamp) -> Option<JoinRequest> {
        let joining = &self.volatile.joining;
        let Some(node) = &joining.node else {
            let needed = self.volatile.settings.joins || self.booted_config().is_some();
            return needed.then_some(JoinRequest::ReadNode);
        };
        if self.needs_no_taint() && !joining.taint_backoff.waits(now) {
            return Some(JoinRequest::RemoveTaint(node.uid.clone()));
        }
        let (config, max_disruption) = match self.booted_config() {
            // The kubelet runs it already.
            Some(config) => (config, Class::Restart),
            None if !self.may_join_by_pointer() || !node.tainted => return None,
            None => match &joining.pointer {
                None => return node.pool.clone().map(JoinRequest::ReadPointer),
                Some(None) => return None,
                // No ordinary pods run on a node with the taint.
                Some(Some(config)) => {
                    ((config.source.clone(), config.hash.to_string(), config.placement), Class::Drain)
                }
            },
        };
        let (source, content_hash, placement) = config;
        let spec = NodeConfigSpec {
            config_source: Some(source),
            content_hash: Some(content_hash),
            max_disruption: Some(max_disruption),
            placement,
            self_assigned: true,
        };
        Some(JoinRequest::Create { node_uid: node.uid.clone(), spec: Box::new(spec) })
    }

    /// Reports whether the Node has the startup taint although the configuration is in place.
    fn needs_no_taint(&self) -> bool {
        let is_tainted = self.volatile.joining.node.as_ref().is_some_and(|node| node.tainted);
        self.volatile.settings.joins && is_tainted && self.is_in_place()
    }

    /// Reports whether the node has no NodeConfig, and had none since the agent started.
    fn never_had_node_config(&self) -> bool {
        self.volatile.joining.missing && !self.volatile.joining.seen
    }

    /// Source, content hash and placement that a booted node joins with. `None` if the node was not booted, has a NodeConfig, or
    /// if the configuration failed.
    fn booted_config(&self) -> Option<(ConfigSource, String, Option<Placement>)> {
        let agent_state = &self.ledger.agent_state;
        if !agent_state.booted || agent_state.failure.is_some() || !self.never_had_node_config() {
            return None;
        }
        let mut source = self.ledger.assigned.clone()?;
        if let Some(map) = source.config_map_mut() {
            (map.uid, map.resource_version) = (None, None);
        }
        Some((source, agent_state.content_hash.clone()?, agent_state.placement))
    }

    /// Reports whether a Node with the startup taint joins by the pointer: it has no assignment at all.
    pub(super) fn may_join_by_pointer(&self) -> bool {
        let agent_state = &self.ledger.agent_state;
        self.volatile.settings.joins
            && self.never_had_node_config()
            && !agent_state.booted
            && self.ledger.assigned.is_none()
            && self.ledger.last_known_good.is_none()
            && agent_state.active.is_none()
    }

    /// Reports whether the kubelet is healthy on the configuration that the node is to have.
    pub(super) fn is_in_place(&self) -> bool {
        let Self { ledger, volatile } = self;
        let agent_state = &ledger.agent_state;
        let healthy = match &agent_state.phase {
            Phase::Settled => true,
            Phase::Activating { .. } => false,
            Phase::Trying(trial) => trial.healthy_since.is_some() && trial.unhealthy_since.is_none(),
        };
        if !healthy || agent_state.failure.is_some() || ledger.active() != ledger.assignment() {
            return false;
        }
        match (&volatile.node_config, &ledger.assigned) {
            (Some(config), assigned) => {
                let named = match (&config.spec.config_source, assigned) {
                    (Some(wanted), Some(assigned)) => wanted.names_same(assigned),
                    (wanted, assigned) => wanted.is_none() && assigned.is_none(),
                };
                let hash = config.spec.content_hash.as_ref();
                named && (assigned.is_none() || hash.is_none_or(|hash| agent_state.content_hash.as_ref() == Some(hash)))
            }
            (None, Some(_)) => true,
            (None, None) => volatile.joining.pointer == Some(None),
        }
    }
}
