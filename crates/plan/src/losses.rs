//! What nodes lose by a configuration that replaces theirs and omits fields, by the table of removals. A loss that the
//! pool does not accept (`spec.kubelet.acceptRemoved`) refuses the plan; other losses are warnings.

use std::collections::BTreeMap;

use super::{PoolPlan, Problem};
use crate::changes::LostField;
use crate::changes::{ChangedField, OmittedField, omitted_fields};
use kubelet_config::fields::secrets::NOT_SHOWN;
use kubelet_config::finding::Finding;
use kubelet_config::risk::removals::Removal;
use nodecfg_fleet::{Pool, RolloutPolicy};

/// Omitted fields whose loss a policy does not accept, by path.
pub(super) fn lost_fields<'a>(
    fields: impl IntoIterator<Item = &'a ChangedField>,
    policy: &RolloutPolicy,
) -> Vec<LostField> {
    let lost: Vec<&ChangedField> = fields.into_iter().filter(|field| refused_loss(field, policy).is_some()).collect();
    let losses: BTreeMap<&str, &'static Removal> =
        lost.iter().filter_map(|field| Some((field.change.path.as_str(), field.loss?))).collect();
    let field = |omitted: OmittedField| Some(LostField { loss: losses.get(omitted.path.as_str())?, omitted });
    omitted_fields(lost.into_iter()).into_iter().filter_map(field).collect()
}

/// The loss by a change that a policy refuses.
fn refused_loss(field: &ChangedField, policy: &RolloutPolicy) -> Option<&'static Removal> {
    field.loss.filter(|loss| !field.is_set() && !policy.accept_removed.contains(&loss.field))
}

/// The problem of a pool whose nodes lose what it does not accept.
pub(super) fn harmful_removal(pool: &PoolPlan) -> Option<Problem> {
    let lost = pool.disruption.lost.clone();
    (!lost.is_empty()).then(|| Problem::HarmfulRemoval { pool: pool.name.clone(), lost })
}

/// Warns of what the changed fields of a pool take away and do not refuse: what it accepts, and static pods that another
/// place of their files stops.
#[must_use]
pub fn loss_warnings<'f>(pool: &Pool, fields: impl IntoIterator<Item = &'f ChangedField>) -> Vec<Finding> {
    let mut warned: BTreeMap<&str, Finding> = BTreeMap::new();
    for field in fields.into_iter().filter(|field| refused_loss(field, &pool.policy).is_none()) {
        let (Some(loss), path) = (field.loss, &field.change.path) else { continue };
        let old = field.change.old.as_deref().or(field.old_default.as_deref()).unwrap_or_default();
        let event = match field.change.new.as_deref().filter(|_| field.is_set()) {
            None => format!("the configuration omits {path}, which is {old} now"),
            Some(new) => format!("{path} changes from {old} to {new}"),
        };
        // A redacted value is no value to write.
        let kept = if old.contains(NOT_SHOWN) { path.clone() } else { format!("{path}: {old}") };
        let message = format!("pool {}: {event}: {}", pool.name, loss.consequence.trim_end_matches('.'));
        let place = field.change.place.clone().unwrap_or_else(|| pool.place.clone());
        let finding = Finding::warning("value-lost", message).at(place).field(path);
        warned.entry(path).or_insert_with(|| finding.help(format!("write {kept}, or accept the loss")));
    }
    warned.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::change_fixtures::{cluster, planned, runs, wants};
    use super::super::{Scope, check};
    use kubelet_config::risk::{Class, removals};
    use nodecfg_fleet::Desired;

    const KUBEADM: &str = "authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\nclusterDNS: \
                           [10.96.0.10]\nclusterDomain: cluster.local\nrotateCertificates: true";

    /// The wanted fields, with acceptance of these removals.
    fn accepting(fields: &str, accepted: &[&str]) -> Desired {
        let mut desired = wants(fields, Class::Never);
        for pool in desired.pools.values_mut() {
            pool.policy.accept_removed = accepted.iter().map(ToString::to_string).collect();
        }
        desired
    }

    #[test]
    fn refuses_a_plan_that_takes_fields_away() {
        let cluster = cluster([runs("n1", KUBEADM)], &[KUBEADM]);
        let desired = accepting("maxPods: 60", &["rotateCertificates"]);
        let plan = planned(&desired, &cluster);
        let [problem] = plan.refusals().try_into().expect("one refusal");
        assert_eq!(
            problem.to_string(),
            "pool a: its nodes lose authentication.x509.clientCAFile, clusterDNS, clusterDomain, which the configuration \
             omits. authentication.x509.clientCAFile: The kubelet no longer accepts the API server's client certificate: \
             `kubectl logs`, `exec` and metrics of the node stop. clusterDNS: New pods get the DNS servers of the node \
             and resolve no service. clusterDomain: New pods resolve no service by its short name"
        );
        assert_eq!(
            problem.help(),
            "write authentication.x509.clientCAFile: /etc/kubernetes/pki/ca.crt, clusterDNS: [\"10.96.0.10\"], \
             clusterDomain: cluster.local, which the configuration omits, to keep what the nodes run; or set \
             spec.kubelet.acceptRemoved: [authentication.x509.clientCAFile, clusterDNS, clusterDomain] in \
             pools/a/pool.yaml"
        );
        assert!(problem.is_of_repository());
        // What the pool accepts is a warning.
        let warnings: Vec<_> = plan.findings.iter().filter(|finding| finding.code == "value-lost").collect();
        assert_eq!(warnings.len(), 1);
        assert_eq!(
            warnings[0].message,
            "pool a: the configuration omits rotateCertificates, which is true now: The kubelet no longer renews its client \
             certificate: the node is lost when the certificate expires"
        );
        assert_eq!(check(&plan, &desired, &cluster, &Scope::Everything), []);
    }

    #[test]
    fn both_fixes_end_the_refusal() {
        let cluster = cluster([runs("n1", KUBEADM)], &[KUBEADM]);
        assert_eq!(planned(&accepting(&format!("{KUBEADM}\nmaxPods: 60"), &[]), &cluster).refusals(), []);
        let all: Vec<&str> = removals::all().map(|removal| removal.field.as_str()).collect();
        assert_eq!(planned(&accepting("maxPods: 60", &all), &cluster).refusals(), []);
        assert_eq!(planned(&accepting("maxPods: 60", &all[1..]), &cluster).refusals(), []);
        assert_eq!(planned(&accepting("maxPods: 60", &["clusterDNS"]), &cluster).refusals().len(), 1);
    }

    #[test]
    fn losses_of_different_nodes_are_listed_together() {
        let (dns, domain) = ("clusterDNS: [10.96.0.10]", "clusterDNS: [10.96.0.11]\nclusterDomain: a.b");
        let cluster = cluster([runs("n1", dns), runs("n2", domain)], &[dns, domain]);
        let plan = planned(&accepting("maxPods: 60", &[]), &cluster);
        let lost: Vec<_> = plan.pools[0].disruption.lost.iter().map(|lost| &lost.omitted).collect();
        let listed: Vec<_> = lost.iter().map(|lost| (lost.path.as_str(), lost.running.as_deref())).collect();
        assert_eq!(listed, [("clusterDNS", None), ("clusterDomain", Some("a.b"))]);
    }

    #[test]
    fn plan_warns_of_static_pods_that_another_place_stops() {
        let warnings = |from: &str, to: &str| {
            let plan = planned(&wants(to, Class::Replace), &cluster([runs("n1", from)], &[from]));
            let found = plan.findings.into_iter().filter(|finding| finding.code == "value-lost");
            found.map(|finding| (finding.message, finding.help.unwrap_or_default())).collect::<Vec<_>>()
        };
        let path = "staticPodPath: /etc/kubernetes/manifests";
        assert_eq!(
            warnings(path, "staticPodPath: /srv"),
            [(
                "pool a: staticPodPath changes from /etc/kubernetes/manifests to /srv: The kubelet stops its static pods, on \
                 control-plane nodes the API server and etcd, and a drain moves none of them"
                    .to_owned(),
                "write staticPodPath: /etc/kubernetes/manifests, or accept the loss".to_owned()
            )]
        );
        assert_eq!(warnings("maxPods: 64", path), []);
        assert_eq!(warnings(path, &format!("{path}\nmaxPods: 64")), []);
        assert_eq!(warnings(path, "maxPods: 64"), [], "it is refused instead");
    }

    #[test]
    fn checker_rejects_a_plan_that_hides_a_loss() {
        let cluster = cluster([runs("n1", KUBEADM)], &[KUBEADM]);
        let desired = accepting("maxPods: 60", &["clusterDomain"]);
        let plan = planned(&desired, &cluster);
        assert_eq!(plan.pools[0].disruption.lost.len(), 3);
        for at in 0..3 {
            let mut plan = plan.clone();
            let pool = &mut plan.pools[0];
            let path = pool.disruption.lost.remove(at).omitted.path;
            for field in
                pool.changes.iter_mut().flat_map(|set| &mut set.fields).filter(|field| field.change.path == path)
            {
                field.loss = None;
            }
            let violations = check(&plan.identified(), &desired, &cluster, &Scope::Everything);
            let texts: BTreeSet<String> = violations.iter().map(ToString::to_string).collect();
            assert_eq!(texts, BTreeSet::from([format!("pool a: its nodes lose {path} without acceptance")]));
        }
    }
}
