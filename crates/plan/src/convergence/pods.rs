//! Judgement of a node's pods after its assignment: pods that its kubelet refused, and pods that are not Ready again.
//!
//! A pure function of two lists of the pods: before the assignment and after the convergence. Must not decide when they
//! are made, or when a pod is late.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::printable::one_line;
use nodecfg_observed::Pod;

/// Maximum number of pods that a failure names.
const MAX_NAMED: usize = 3;

/// What must be remembered of the pods before an assignment. A node may have hundreds of pods, so only uids are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodsBefore {
    /// Pods that were Ready.
    ready: BTreeSet<String>,
    /// Pods that ran or waited, and were not Ready.
    unready: BTreeSet<String>,
    /// Pods that the kubelet had refused.
    refused: BTreeSet<String>,
}

/// Verdict on the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodsVerdict {
    /// All pods are as before, or better.
    Back,
    /// Pods that were Ready are not. They may become so.
    Late(LatePods),
    /// The kubelet refused pods. They never run.
    Refused(RefusedPods),
}

/// Pods that were Ready before an assignment and are not Ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatePods {
    /// Number of these pods.
    pub pods: usize,
    /// Namespace and name of the first of them.
    pub examples: Vec<String>,
}

/// Pods that the kubelet refused after an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedPods {
    /// Number of these pods.
    pub pods: usize,
    /// Namespace and name of the first of them.
    pub pod: String,
    /// Reason of the kubelet, such as `UnexpectedAdmissionError`.
    pub code: String,
    /// Message of the kubelet, on one line and cut.
    pub message: String,
}

impl PodsBefore {
    /// Remembers the pods of a node.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Self {
        let mut before = Self::default();
        for pod in pods {
            let kind = if pod.rejection.is_some() {
                &mut before.refused
            } else if pod.finished || pod.deleting {
                continue;
            } else if pod.ready {
                &mut before.ready
            } else {
                &mut before.unready
            };
            kind.insert(pod.uid.clone());
        }
        before
    }

    /// Number of pods that were Ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Reports whether no pod ran or waited, so that a restart of the kubelet takes nothing from the node.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.unready.is_empty()
    }

    /// Judges the pods of the node after its assignment.
    #[must_use]
    pub fn judge(&self, after: &[Pod]) -> PodsVerdict {
        let mut refused: Vec<(&Pod, _)> = after.iter().filter_map(|pod| Some((pod, pod.rejection.as_ref()?))).collect();
        refused.retain(|(pod, rejection)| {
            let was_here = self.ready.contains(&pod.uid) || self.unready.contains(&pod.uid);
            was_here || !(self.refused.contains(&pod.uid) || rejection.is_lack_of_room())
        });
        if let Some((pod, rejection)) = refused.iter().min_by_key(|(pod, _)| place(pod)) {
            return PodsVerdict::Refused(RefusedPods {
                pods: refused.len(),
                pod: pod.to_string(),
                code: rejection.reason.clone(),
                message: rejection.message.clone(),
            });
        }
        let is_late = |pod: &&Pod| !pod.ready && !pod.finished && !pod.deleting && self.ready.contains(&pod.uid);
        let mut late: Vec<&Pod> = after.iter().filter(is_late).collect();
        late.sort_by_key(|pod| place(pod));
        if late.is_empty() {
            return PodsVerdict::Back;
        }
        let examples = late.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        PodsVerdict::Late(LatePods { pods: late.len(), examples })
    }
}

impl fmt::Display for LatePods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.pods == 1 { " is" } else { "s are" };
        write!(f, "{} pod{plural} not Ready again: {}", self.pods, one_line(&self.examples.join(", ")))?;
        match self.pods.saturating_sub(self.examples.len()) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl fmt::Display for RefusedPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, pod, code, message } = self;
        write!(f, "the kubelet refused pod {}", one_line(pod))?;
        match pods.saturating_sub(1) {
            0 => {}
            1 => f.write_str(" and 1 more pod")?,
            more => write!(f, " and {more} more pods")?,
        }
        write!(f, ": {}", one_line(code))?;
        if message.is_empty() { Ok(()) } else { write!(f, ": {}", one_line(message)) }
    }
}

/// Number of Ready pods of a node.
#[must_use]
pub fn ready_pods(pods: &[Pod]) -> usize {
    pods.iter().filter(|pod| pod.ready && !pod.finished && !pod.deleting).count()
}

fn place(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}

#[cfg(test)]
mod tests;
