//! Local configuration of simulated nodes. Pure.

use std::collections::BTreeSet;

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::risk::Class;
use kubelet_config::verdict::assess;
use nodecfg_planning::desired::Rendered;
use nodecfg_planning::plan::changed_fields;

use super::KUBEADM_FILE;

/// Local configuration of the nodes of a pool that allows `allowed`: kubeadm's defaults, and the pool's value of each
/// top-level field that a first assignment could not change without a drain, or would take away to the nodes' harm.
///
/// The repository does not tell what its nodes were provisioned with. With these values, a first rollout changes fields,
/// and no plan or agent refuses it.
pub(super) fn local_config(rendered: &Rendered, allowed: Class, minor: Minor) -> String {
    let mixed = mixed(&rendered.document, allowed.min(Class::Restart), minor);
    let text = mixed.map_or_else(|| rendered.canonical.clone(), |document| document.canonical());
    // The comment keeps the content different from the ConfigMap's, as that of a provisioned file is.
    format!("# As provisioned.\n{text}")
}

/// `None` if kubelets refuse the combination, or if its change is of a higher class than its parts.
fn mixed(pool: &Document, allowed: Class, minor: Minor) -> Option<Document> {
    let provisioned = Document::parse("own", KUBEADM_FILE).document?;
    let (own, mut fields) = (pool.to_json(), provisioned.to_json());
    let fields_of_node = fields.as_object_mut()?;
    for field in fields_above(&provisioned, pool, allowed, minor) {
        match own.get(&field) {
            Some(value) => fields_of_node.insert(field, value.clone()),
            None => fields_of_node.remove(&field),
        };
    }
    let mixed = Document::parse("local", &fields.to_string()).document?;
    let is_changeable = fields_above(&mixed, pool, allowed, minor).is_empty();
    (is_changeable && assess(&mixed, minor).runs()).then_some(mixed)
}

/// Top-level fields with a change of a higher class than `allowed`, or whose loss harms the nodes.
fn fields_above(old: &Document, new: &Document, allowed: Class, minor: Minor) -> BTreeSet<String> {
    changed_fields(Some(old), Some(new), &BTreeSet::from([Some(minor)]))
        .into_iter()
        .filter(|field| field.loss.is_some() || field.risk.as_ref().is_none_or(|risk| risk.class > allowed))
        .filter_map(|field| Some(field.change.path.split(['.', '[']).next()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    const KUBEADM: &str = "cgroupDriver: systemd\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n";

    /// The fields that change from the local configuration to a pool with this body.
    fn first_changes(body: &str, allowed: Class, minor: Minor) -> Vec<String> {
        let document = Document::parse("f.yaml", &format!("{KIND}{KUBEADM}{body}")).document.unwrap();
        let canonical = document.canonical();
        let (hash, path) = (nodecfg_contract::ContentHash::of(canonical.as_bytes()), "f.yaml".to_owned());
        let rendered = Rendered { document, canonical, hash, config_map: "a".to_owned(), path };
        let local = local_config(&rendered, allowed, minor);
        let local = Document::parse("local", &local).document.unwrap();
        assert!(fields_above(&local, &rendered.document, allowed.min(Class::Restart), minor).is_empty(), "{body}");
        let changes = changed_fields(Some(&local), Some(&rendered.document), &BTreeSet::from([Some(minor)]));
        changes.into_iter().filter(|field| !field.no_effect).map(|field| field.change.path).collect()
    }

    #[test]
    fn first_assignment_changes_what_a_restart_can_change() {
        let newest = |body: &str| first_changes(body, Class::Restart, kubelet_config::minor::NEWEST);
        let of_kubeadm = newest("");
        assert!(of_kubeadm.is_empty(), "what the pool omits would be lost: {of_kubeadm:?}");
        let more = |body: &str| -> Vec<String> {
            newest(body).into_iter().filter(|path| !of_kubeadm.contains(path)).collect()
        };
        assert_eq!(more("maxPods: 150\nimageGCHighThresholdPercent: 82\n"), ["imageGCHighThresholdPercent", "maxPods"]);
        assert_eq!(more("maxPods: 30\nregistryPullQPS: 2\n"), ["registryPullQPS"], "fewer pods need a drain");
        assert_eq!(more("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"), [""; 0]);
        assert!(!more("cgroupDriver: cgroupfs\n").contains(&"cgroupDriver".to_owned()));
    }

    #[test]
    fn pool_that_allows_less_changes_less() {
        let found = |allowed| first_changes("syncFrequency: 2m\noomScoreAdj: -900\n", allowed, Minor(30));
        assert!(found(Class::Restart).contains(&"oomScoreAdj".to_owned()));
        assert!(found(Class::Drain) == found(Class::Restart));
        assert_eq!(found(Class::None), ["syncFrequency"]);
    }

    #[test]
    fn refused_combination_starts_with_the_configuration_of_the_pool() {
        // Soft thresholds require a grace period, whose change needs a drain.
        let soft = "evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 1m}\n";
        let found = first_changes(soft, Class::Restart, Minor(30));
        assert!(!found.iter().any(|path| path.starts_with("evictionSoft")), "{found:?}");
    }
}
