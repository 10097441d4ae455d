//! Comparison of the ledger with the kubelet's configuration on disk, which other programs may write.

use std::io::ErrorKind;

use super::{AgentRuntime, LoadedText};
use crate::content;
use crate::disk::Disk;
use crate::events::{ConfigCheck, DiskCheck, Event, Step};
use crate::host::process::{KubeletProcess, ProcessProblem};
use crate::ledger::{AgentState, Phase};
use crate::placement::PlacementError;
use crate::proof::{self, Unproven};
use jiff::Timestamp;
use nodecfg_contract::Placement;
use nodecfg_contract::nodeconfig::{EffectiveStatus, NodeConfigStatus};

impl<D: Disk> AgentRuntime<D> {
    /// Compares the ledger with the disk.
    pub(super) fn check_disk(&self) -> DiskCheck {
        let ledger = &self.state.ledger;
        // If the version is unknown, only what no version accepts counts. Any other result must not replace one for a
        // known version.
        let trusted = |config_check: &ConfigCheck| {
            self.kubelet.is_some()
                || matches!(config_check, ConfigCheck::NotLoaded { .. } | ConfigCheck::NotPlaceable { .. })
        };
        let in_place = match self.loaded(ledger.active()) {
            Ok(active) => {
                let content = active.as_ref().map(LoadedText::reviewed);
                self.placer.is_in_place(&self.disk, content).unwrap_or_else(|error| {
                    tracing::warn!(%error, "cannot check whether the kubelet's configuration is in place");
                    // The local configuration then stays untouched. Any other is placed again, which reports the error.
                    active.is_none()
                })
            }
            Err(_) => false,
        };
        let config_check = ledger.assignment().map(|assigned| self.check_checkpoint(assigned)).filter(trusted);
        // What is in place was placed. A file of the node that is unreadable now says nothing about it.
        let config_check =
            config_check.filter(|check| !(in_place && matches!(check, ConfigCheck::NotPlaceable { .. })));
        DiskCheck { config_check, in_place, good_changed: self.has_good_changed() }
    }

    /// Compares the ledger with the disk while the agent runs. Quick unless another program has written the file.
    pub(super) fn recheck_disk(&self) -> DiskCheck {
        let AgentState { placed_text, failure, phase, .. } = &self.state.ledger.agent_state;
        match self.placer.found_digest(&self.disk) {
            Ok(found) if failure.is_none() && found.is_some() && found == *placed_text => DiskCheck::UNCHANGED,
            // No reason to restart a kubelet. A trial needs to know.
            Err(PlacementError::Disk(error))
                if error.source.kind() != ErrorKind::FileTooLarge && *phase == Phase::Settled =>
            {
                tracing::warn!(%error, "cannot check whether the kubelet's configuration is in place");
                DiskCheck::UNCHANGED
            }
            // Another activation reports the error.
            Ok(_) | Err(_) => self.check_disk(),
        }
    }

    /// Reports whether the last known good has another text than the one that passed its trial.
    fn has_good_changed(&self) -> bool {
        let Some(passed) = &self.state.ledger.agent_state.last_known_good_text else { return false };
        let Ok(good) = self.loaded(self.state.ledger.good()) else { return false };
        let now = self.placer.digest(&self.disk, good.as_ref().map(LoadedText::reviewed));
        now.is_ok_and(|now| now.as_ref() != Some(passed))
    }

    /// Completes a report with what the kubelet runs of the configuration that it calls active: the values that something
    /// overrides, and the node's own values beneath. `process`: the running kubelet.
    #[must_use]
    pub fn complete(
        &mut self,
        mut status: NodeConfigStatus,
        process: Result<KubeletProcess, ProcessProblem>,
        now: Timestamp,
    ) -> NodeConfigStatus {
        let reported = status.config.as_ref().and_then(|config| config.active.as_ref());
        // The kubelet may already start with the next one.
        let is_present = reported == self.state.ledger.agent_state.active.as_ref();
        let compared = self.compared(process).filter(|_| is_present);
        if let Some(Comparison { effective, unproven }) = &compared
            && reported.is_some()
        {
            status.conditions.extend(self.state.effective_condition(effective, unproven.as_ref(), &status, now));
        }
        status.conditions.extend(self.state.summary(&status, now));
        status.effective = compared.as_ref().map(|compared| compared.effective.clone());
        self.reported = compared;
        status
    }

    /// Compares what the kubelet runs with the last report. Returns the next step if that has changed.
    pub(crate) fn compare_again(
        &mut self,
        process: Result<KubeletProcess, ProcessProblem>,
        now: Timestamp,
    ) -> Option<Step> {
        self.reported.as_ref()?;
        let compared = self.compared(process);
        (compared != self.reported).then(|| self.handle(Event::Drifted, now))
    }

    /// Compares the active configuration with what the kubelet runs. `None` if its checkpoint is unreadable.
    fn compared(&mut self, process: Result<KubeletProcess, ProcessProblem>) -> Option<Comparison> {
        let active = self.loaded(self.state.ledger.active()).ok()?;
        let (effective, unproven) = match self.prove(active.as_ref(), process) {
            Ok(effective) => (effective, None),
            Err(unproven) => (EffectiveStatus::default(), Some(unproven)),
        };
        let overlay = active.filter(|active| active.placement == Placement::Overlay);
        let beneath = overlay.and_then(|overlay| {
            content::beneath(&self.placer.underneath(&self.disk, overlay.placement).ok()?, &overlay.text)
        });
        let EffectiveStatus { beneath, beneath_more, .. } = beneath.unwrap_or_default();
        Some(Comparison { effective: EffectiveStatus { beneath, beneath_more, ..effective }, unproven })
    }

    /// Fields that flags and later files of the kubelet set. `None` if they are not all known.
    pub(super) fn fields_above(&mut self, process: Result<KubeletProcess, ProcessProblem>) -> Option<Vec<String>> {
        let Comparison { effective, unproven } = self.compared(process)?;
        let are_known = unproven.is_none() && effective.above_more == 0;
        are_known.then(|| effective.above.into_iter().map(|value| value.field).collect())
    }

    /// Compares the values of a configuration with those that the kubelet runs.
    fn prove(
        &mut self,
        active: Option<&LoadedText>,
        process: Result<KubeletProcess, ProcessProblem>,
    ) -> Result<EffectiveStatus, Unproven> {
        let process = process?;
        let minor = proof::version(self.kubelet)?;
        let files = self.placer.kubelet_files(&self.disk, proof::paths(&process, minor)?)?;
        // A removed file has no time of change.
        let paths = files.paths();
        match &self.first_read {
            Some((started, first)) if *started == process.started => {
                if !first.is_subset(&paths) {
                    return Err(Unproven::NotRestarted);
                }
            }
            _ => self.first_read = Some((process.started, paths)),
        }
        let content = active.map(LoadedText::reviewed);
        if content.is_some() && !self.placer.is_in_place(&self.disk, content).unwrap_or(false) {
            // An activation that has not ended has changed the file itself.
            let is_activating = matches!(self.state.ledger.agent_state.phase, Phase::Activating { .. });
            return Err(if is_activating { Unproven::NotRestarted } else { Unproven::NotInPlace });
        }
        proof::compare(active.map(|active| active.text.as_str()), &files, &process, minor)
    }
}

/// What a report says of the values that the kubelet runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    effective: EffectiveStatus,
    /// Why it is unknown which values the kubelet runs.
    unproven: Option<Unproven>,
}
