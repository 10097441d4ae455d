//! The conditions Ready, Reconciling and Stalled, by which programs judge a NodeConfig that know nothing else of nodecfg:
//! `kubectl wait`, Flux, Argo CD and everything else that follows kstatus
//! (<https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>).

use jiff::Timestamp;

use super::MachineState;
use super::status::{ConditionValue, FALSE, TRUE, UNKNOWN, condition};
use nodecfg_contract::nodeconfig::{
    ACTIVE, Condition, EFFECTIVE, NodeConfigStatus, READY, RECONCILING, STALLED, SYNCED,
};

/// Reason of a condition that the other conditions give no reason for.
const WORKING: &str = "Progressing";

impl MachineState {
    /// The three conditions of a report, which follow from its other conditions.
    pub(crate) fn summary(&self, report: &NodeConfigStatus, now: Timestamp) -> Vec<Condition> {
        let known = self.volatile.node_config.as_ref().map(|config| config.status.conditions.as_slice());
        let before = |kind: &str| known.unwrap_or_default().iter().find(|condition| condition.kind == kind);
        let values = of(report, self.ledger.agent_state.failure.is_some());
        let all = [READY, RECONCILING, STALLED].into_iter().zip(values);
        all.filter_map(|(kind, value)| condition(kind, Some(value), before(kind), report.observed_generation, now))
            .collect()
    }
}

/// Ready, Reconciling and Stalled. `has_failed`: the assignment failed, and only another one helps.
fn of(report: &NodeConfigStatus, has_failed: bool) -> [ConditionValue; 3] {
    let found = |kind: &str| report.conditions.iter().find(|condition| condition.kind == kind);
    let is = |condition: Option<&Condition>, status: &str| condition.is_some_and(|found| found.status == status);
    let (synced, active, effective) = (found(SYNCED), found(ACTIVE), found(EFFECTIVE));
    let told = |condition: Option<&Condition>| match condition {
        Some(found) => (found.reason.clone(), found.message.clone()),
        None => (WORKING.to_owned(), "the agent works on the assignment".to_owned()),
    };
    let no = |why: &str| (FALSE, why.to_owned(), String::new());
    let runs_own = report.config.as_ref().is_none_or(|config| config.active.is_none());
    let unfinished = [synced, active].into_iter().find(|condition| !is(*condition, TRUE));
    let (ready, is_stalled) = match unfinished {
        Some(why) => {
            let (reason, message) = told(why);
            ((FALSE, reason, message), has_failed && is(synced, TRUE))
        }
        None if is(effective, FALSE) => {
            let (reason, message) = told(effective);
            ((FALSE, reason, message), true)
        }
        None if runs_own || is(effective, TRUE) => {
            let (_, message) = told(active);
            ((TRUE, "Converged".to_owned(), message), false)
        }
        None => {
            let unknown = || ("NotCompared".to_owned(), "what the kubelet runs is not known yet".to_owned());
            let (reason, message) = effective.map_or_else(unknown, |found| told(Some(found)));
            ((UNKNOWN, reason, message), false)
        }
    };
    let problem = (TRUE, ready.1.clone(), ready.2.clone());
    let [reconciling, stalled] = match (ready.0, is_stalled) {
        (FALSE, true) => [no("Stalled"), problem],
        (FALSE, false) => [problem, no(WORKING)],
        _ => [no("Converged"), no("Converged")],
    };
    [ready, reconciling, stalled]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::{ConfigSource, ConfigStatus, KUBELET_KEY};

    fn shown(conditions: &[(&str, &str, &str)], runs_own: bool, has_failed: bool) -> String {
        let one = |(kind, status, reason): &(&str, &str, &str)| Condition {
            kind: (*kind).to_owned(),
            status: (*status).to_owned(),
            reason: (*reason).to_owned(),
            ..Condition::default()
        };
        let active = (!runs_own).then(|| ConfigSource::config_map("ns", "map", KUBELET_KEY));
        let report = NodeConfigStatus {
            config: Some(ConfigStatus { active, ..ConfigStatus::default() }),
            conditions: conditions.iter().map(one).collect(),
            ..NodeConfigStatus::default()
        };
        of(&report, has_failed).map(|(status, reason, _)| format!("{status} {reason}")).join(", ")
    }

    #[test]
    fn node_is_ready_when_converged_and_effective() {
        let (synced, active) = ((SYNCED, TRUE, "Synced"), (ACTIVE, TRUE, "Active"));
        let converged = "True Converged, False Converged, False Converged";
        assert_eq!(shown(&[synced, active, (EFFECTIVE, TRUE, "Effective")], false, false), converged);
        assert_eq!(shown(&[synced, active], true, false), converged, "its own configuration");
        let unknown = "Unknown NoProcess, False Converged, False Converged";
        assert_eq!(shown(&[synced, active, (EFFECTIVE, UNKNOWN, "NoProcess")], false, false), unknown);
        let not_compared = "Unknown NotCompared, False Converged, False Converged";
        assert_eq!(shown(&[synced, active], false, false), not_compared);
    }

    #[test]
    fn node_reconciles_until_only_a_person_can_help() {
        let (synced, active) = ((SYNCED, TRUE, "Synced"), (ACTIVE, TRUE, "Active"));
        let working = "False Progressing, True Progressing, False Progressing";
        assert_eq!(shown(&[], true, false), working);
        let activating = "False Activating, True Activating, False Progressing";
        assert_eq!(shown(&[synced, (ACTIVE, FALSE, "Activating")], false, false), activating);
        let download = "False DownloadFailed, True DownloadFailed, False Progressing";
        assert_eq!(shown(&[(SYNCED, FALSE, "DownloadFailed"), active], false, false), download);
        assert_eq!(
            shown(&[(SYNCED, FALSE, "DownloadFailed"), (ACTIVE, FALSE, "TrialFailed")], false, true),
            download,
            "another assignment came after the failure"
        );
        let failed = "False TrialFailed, False Stalled, True TrialFailed";
        assert_eq!(shown(&[synced, (ACTIVE, FALSE, "TrialFailed")], false, true), failed);
        let overridden = "False Overridden, False Stalled, True Overridden";
        assert_eq!(shown(&[synced, active, (EFFECTIVE, FALSE, "Overridden")], false, false), overridden);
    }
}
