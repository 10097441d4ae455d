//! Invariants of a node, checked after steps and crashes and at restarts of the kubelet.

use std::collections::BTreeMap;
use std::path::Path;

use nodecfg_agent::ledger::{FailureKind, Ledger};
use nodecfg_agent::store::Store;
use nodecfg_contract::ConfigSource;

use super::{CONFIG, FOLDER, SimulatedNode};
use crate::crash::contents::{self, Behaviour};

impl SimulatedNode {
    /// Asserts that the kubelet's file is complete and accepted, since the kubelet may be restarted at any time.
    pub(super) fn check_config(&self, when: &str) {
        let found = self.disk.content(Path::new(CONFIG));
        let found = found.unwrap_or_else(|| panic!("{when}, the kubelet's configuration is missing\n{}", self.log));
        assert!(
            self.allowed_contents.contains(&*found),
            "{when}, the kubelet's file is partial or was never accepted: {:?}\n{}",
            String::from_utf8_lossy(&found),
            self.log
        );
    }

    /// Asserts that the ledger on disk names the placed content, because it is saved before the placement. Not
    /// checked while the disk has faults.
    pub(super) fn check_saved(&self) {
        if !self.faults.is_empty() {
            return;
        }
        let store = Store::new(Path::new(FOLDER));
        let ledger = store.load(&self.disk).unwrap_or_else(|error| panic!("{error}\n{}", self.log));
        let named = [&ledger.assigned, &ledger.last_known_good, &ledger.agent_state.active];
        let payloads = named.into_iter().flatten().filter_map(|source| store.load_checkpoint(&self.disk, source).ok());
        let mut texts = payloads.flat_map(BTreeMap::into_values);
        let found = self.disk.content(Path::new(CONFIG)).unwrap_or_default();
        assert!(
            *found == *contents::LOCAL.as_bytes()
                || texts.any(|text| contents::essence(&text) == contents::essence(&String::from_utf8_lossy(&found))),
            "the ledger on disk does not name the placed content: {:?}\n{ledger:?}\n{}",
            String::from_utf8_lossy(&found),
            self.log
        );
    }

    /// Asserts that the agent never restarts the kubelet on a failed configuration, not even for a moment.
    pub(super) fn check_restart(&self, text: &str, ledger: &Ledger) {
        if let Some(failed) = &self.failed_source {
            assert_ne!(
                Some(contents::essence(text)),
                self.text_of(failed).map(|failed| contents::essence(&failed)),
                "the kubelet was restarted on {failed}, which failed before\n{}",
                self.log
            );
        }
        if ledger.agent_state.failure.is_some() && ledger.assigned != ledger.last_known_good {
            let assigned = ledger.assigned.as_ref().and_then(|assigned| self.text_of(assigned));
            let good = ledger.last_known_good.as_ref().and_then(|good| self.text_of(good));
            let same = assigned.is_some() && assigned == good;
            assert!(
                same || Some(contents::essence(text)) != assigned.map(|assigned| contents::essence(&assigned)),
                "the kubelet was restarted on the failed assignment of the ledger\n{}",
                self.log
            );
        }
    }

    /// Asserts that only a good configuration is the last known good. Also records failures and changes of the
    /// ledger.
    pub(super) fn check_ledger(&mut self, ledger: &Ledger) {
        let failure = ledger.agent_state.failure.as_ref();
        let tried = failure.is_some_and(|failure| matches!(failure.kind, FailureKind::Trial | FailureKind::Restart));
        // Recorded only if the failure could be saved. The assignment of the ledger may be older than spec.
        if tried && self.faults.is_empty() && self.is_current(ledger) {
            self.failed_source.clone_from(&ledger.assigned);
        }
        if ledger.last_known_good.is_some() {
            let good = ledger.last_known_good.as_ref();
            if let Some(text) = good.and_then(|good| self.text_of(good)) {
                assert_eq!(
                    contents::behaviour(&text),
                    Behaviour::Good,
                    "{:?} became the last known good\n{}",
                    contents::name(&text),
                    self.log
                );
            }
        }
        let changed = self.last_ledger.as_ref().is_none_or(|last| {
            let plain = |ledger: &Ledger| (ledger.assigned.clone(), ledger.last_known_good.clone());
            plain(last) != plain(ledger)
                || last.agent_state.failure != ledger.agent_state.failure
                || std::mem::discriminant(&last.agent_state.phase) != std::mem::discriminant(&ledger.agent_state.phase)
        });
        if changed {
            self.unchanged_since = self.now;
            self.last_ledger = Some(ledger.clone());
        }
    }

    /// Reports whether the ledger has the present assignment. The same ConfigMap with another placement is another one.
    fn is_current(&self, ledger: &Ledger) -> bool {
        let spec = self.config.as_ref().map(|config| &config.spec);
        let wanted = spec.and_then(|spec| spec.config_source.as_ref());
        let placement = spec.and_then(|spec| spec.placement);
        match (ledger.assigned.as_ref(), wanted) {
            (Some(assigned), Some(wanted)) => {
                let is_placed = placement.is_none() || ledger.agent_state.placement == placement;
                assigned.names_same(wanted) && is_placed && self.text_of(assigned).is_some()
            }
            _ => false,
        }
    }

    /// Text of a source, if the API server still has this version.
    fn text_of(&self, source: &ConfigSource) -> Option<String> {
        let named = source.config_map.as_ref()?;
        let map = self.config_maps.get(&named.name)?;
        let same = Some(&map.uid) == named.uid.as_ref() && Some(&map.version) == named.resource_version.as_ref();
        same.then(|| map.payload.get(&named.kubelet_config_key).cloned()).flatten()
    }
}
