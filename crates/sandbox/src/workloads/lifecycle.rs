//! Part of the kubelets: pods start, end and use volumes on their nodes.

use std::time::Duration;

use super::facts::Pod;
use super::model::{Action, Attachment, Model, Timer};
use super::objects;
use crate::kubelets::Moment;

/// Time from the binding of a pod until it is ready, at least.
const START: Duration = Duration::from_secs(2);
/// Maximum addition to [`START`].
const START_JITTER: Duration = Duration::from_secs(2);
/// Time that the containers of a pod need to end, at least. A shorter grace period ends them earlier.
const STOP: Duration = Duration::from_secs(1);
/// Maximum addition to [`STOP`].
const STOP_JITTER: Duration = Duration::from_secs(3);
/// Time from the end of the last pod with a volume until the volume is detached.
const DETACH: Duration = Duration::from_secs(6);

impl Model {
    /// Reacts to a pod that is bound or deleted for the first time.
    pub(super) fn pod_on_node(&mut self, pod: &Pod, was_bound: bool, was_deleting: bool, now: Moment) {
        if pod.node.is_empty() {
            return;
        }
        if pod.deleting() && !was_deleting {
            self.arm_end(pod, now);
        }
        if !was_bound {
            self.use_volumes(pod);
            if pod.pending && !pod.deleting() {
                self.arm_start(pod, now);
            }
        }
    }

    fn arm_start(&mut self, pod: &Pod, now: Moment) {
        let (key, uid) = (pod.key.clone(), pod.meta.uid.clone());
        if self.instant {
            return self.start(&key, &uid);
        }
        let after = START + START_JITTER.mul_f64(self.rng.f64());
        self.arm(now + after, Timer::Start { key, uid });
    }

    fn arm_end(&mut self, pod: &Pod, now: Moment) {
        if pod.hangs() {
            return;
        }
        let stop = STOP + STOP_JITTER.mul_f64(self.rng.f64());
        let after = stop.min(Duration::from_secs(pod.meta.deletion_grace_period_seconds));
        self.arm(now + after, Timer::End { key: pod.key.clone(), uid: pod.meta.uid.clone() });
    }

    /// Repeats what a stopped kubelet missed.
    pub(super) fn kubelet_started(&mut self, node: &str, now: Moment) {
        let keys = self.by_node.get(node).into_iter().flatten();
        let pods: Vec<Pod> =
            keys.filter_map(|key| self.pods.get(key)).filter(|pod| !pod.meta.uid.is_empty()).cloned().collect();
        for pod in pods {
            if pod.deleting() {
                self.arm_end(&pod, now);
            } else if pod.pending {
                self.arm_start(&pod, now);
            }
        }
    }

    /// The pod that a running kubelet has, if it is still the same.
    fn handled(&self, key: &str, uid: &str) -> Option<&Pod> {
        let pod = self.pods.get(key).filter(|pod| pod.meta.uid == uid)?;
        self.nodes.get(&pod.node).is_some_and(|node| node.ready).then_some(pod)
    }

    pub(super) fn start(&mut self, key: &str, uid: &str) {
        if self.handled(key, uid).is_some_and(|pod| pod.pending && !pod.deleting()) {
            self.actions.push(Action::Start { key: key.to_owned(), uid: uid.to_owned() });
        }
    }

    pub(super) fn end(&mut self, key: &str, uid: &str) {
        if self.handled(key, uid).is_some_and(|pod| pod.deleting() && !pod.hangs()) {
            self.actions.push(Action::End { key: key.to_owned(), uid: uid.to_owned() });
        }
    }

    fn use_volumes(&mut self, pod: &Pod) {
        for claim in &pod.claims {
            let name = objects::attachment_name(&pod.meta.namespace, claim, &pod.node);
            let stuck = pod.keeps_volumes();
            if let Some(attached) = self.attached.get_mut(&name) {
                attached.stuck |= stuck;
                continue;
            }
            let attachment = Attachment {
                node: pod.node.clone(),
                namespace: pod.meta.namespace.clone(),
                claim: claim.clone(),
                stuck,
            };
            self.attached.insert(name.clone(), attachment);
            let (node, claim) = (pod.node.clone(), format!("{}-{claim}", pod.meta.namespace));
            self.actions.push(Action::Attach { name, node, claim });
        }
    }

    /// Arms the detachment of the volumes of a removed pod.
    pub(super) fn volumes_unused(&mut self, pod: &Pod, now: Moment) {
        for claim in pod.claims.iter().filter(|_| !pod.node.is_empty()) {
            let name = objects::attachment_name(&pod.meta.namespace, claim, &pod.node);
            self.arm(now + DETACH, Timer::Detach { name });
        }
    }

    pub(super) fn detach(&mut self, name: &str) {
        let Some(attachment) = self.attached.get(name) else { return };
        let uses = |pod: &Pod| pod.meta.namespace == attachment.namespace && pod.claims.contains(&attachment.claim);
        let on_node = self.by_node.get(&attachment.node).into_iter().flatten();
        let used = on_node.filter_map(|key| self.pods.get(key)).any(uses);
        if !used && !attachment.stuck {
            self.attached.remove(name);
            self.actions.push(Action::Detach { name: name.to_owned() });
        }
    }
}
