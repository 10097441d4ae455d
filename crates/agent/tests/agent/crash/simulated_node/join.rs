//! Node and pool pointer of a simulated node that joins.

use std::path::PathBuf;

use nodecfg_agent::boot::Boot;
use nodecfg_agent::boot::offer::Offer;
use nodecfg_agent::joining::{JoinAnswer, JoinConfig, JoinError, JoinRequest, OwnNode};
use nodecfg_contract::Placement;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::nodeconfig::{Metadata, NodeConfig, NodeConfigSpec};
use nodecfg_contract::{ConfigSource, ContentHash};

use super::{NAMESPACE, SimulatedNode, after, kubelet_version, paths};
use crate::crash::contents;

const UID: &str = "uid-node";

/// Node and pool pointer on the API server.
#[derive(Debug, Clone, Default)]
pub struct JoinState {
    /// Whether the Node has the startup taint.
    pub tainted: bool,
    /// ConfigMap that the pointer names.
    pub pointer: Option<&'static str>,
    /// Placement that the pointer names.
    pub placement: Option<Placement>,
    /// Number of NodeConfigs that the agent created.
    pub created: u32,
}

impl SimulatedNode {
    /// New node with the startup taint. The pointer of its pool names a ConfigMap with this content, and a placement.
    pub fn tainted(seed: u64, content: &'static str, placement: Option<Placement>) -> Self {
        let join = JoinState { tainted: true, pointer: Some("proven"), placement, created: 0 };
        let mut sim = Self::with(seed, None, join);
        sim.put_config_map("proven", contents::payload(content, 0), true);
        sim
    }

    /// New node whose kubelet has started with this content of its pool.
    pub fn booted(seed: u64, content: &'static str, placement: Option<Placement>) -> Self {
        let mut sim = Self::without_agent(seed, None, JoinState::default());
        sim.put_config_map("proven", contents::payload(content, 0), true);
        let kubelet = contents::payload(content, 0).remove("kubelet").unwrap();
        let mut source = ConfigSource::config_map(NAMESPACE, "proven", "kubelet");
        if let Some(map) = source.config_map_mut() {
            (map.uid, map.resource_version) = (Some("uid-pointer".to_owned()), Some("7".to_owned()));
        }
        let offer = Offer { source, hash: ContentHash::of(kubelet.as_bytes()), kubelet, placement };
        let boot = Boot { paths: paths(), root: PathBuf::from("/var/lib/kubelet") };
        let pool = PoolName::new("pool").unwrap();
        boot.install(&sim.disk, &offer, &pool, kubelet_version(), sim.now).unwrap();
        sim.allow(&offer.kubelet);
        sim.start_kubelet();
        sim.start_agent();
        sim
    }

    pub fn joined(&self) -> &JoinState {
        &self.join
    }

    pub(super) fn answer_join(&mut self, request: JoinRequest) -> JoinAnswer {
        let gone = || JoinError::Failed("connection refused".to_owned());
        let down = self.api_down;
        match request {
            JoinRequest::ReadNode => {
                let node = OwnNode { uid: UID.to_owned(), pool: Some("pool".to_owned()), tainted: self.join.tainted };
                JoinAnswer::Node(if down { Err(gone()) } else { Ok(node) })
            }
            JoinRequest::ReadPointer(_) => {
                let config = self.join.pointer.map(|name| JoinConfig {
                    source: ConfigSource::config_map(NAMESPACE, name, "kubelet"),
                    hash: ContentHash::of(self.config_maps[name].payload["kubelet"].as_bytes()),
                    placement: self.join.placement,
                });
                JoinAnswer::Pointer(if down { Err(gone()) } else { Ok(config) })
            }
            JoinRequest::Create { .. } if down => JoinAnswer::Created(Err(gone())),
            JoinRequest::Create { spec, .. } => JoinAnswer::Created(Ok(self.create(*spec))),
            JoinRequest::RemoveTaint(uid) => {
                assert_eq!(uid, UID);
                assert!(down || self.answers(), "the kubelet does not answer\n{}", self.log);
                self.join.tainted &= down;
                JoinAnswer::TaintRemoved(if down { Err(gone()) } else { Ok(()) })
            }
        }
    }

    fn create(&mut self, spec: NodeConfigSpec) -> Option<Box<NodeConfig>> {
        if self.config.is_some() {
            return None;
        }
        let created = NodeConfig {
            metadata: Metadata { generation: 1, uid: "uid-config".to_owned(), ..Metadata::default() },
            spec,
            ..NodeConfig::default()
        };
        self.join.created += 1;
        self.config = Some(created.clone());
        self.unchanged_since = after(self.now, 0.0);
        self.deliver_node_config();
        Some(Box::new(created))
    }
}
