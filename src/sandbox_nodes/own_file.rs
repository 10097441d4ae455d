//! Own file of simulated nodes. Pure.

use std::collections::BTreeSet;

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::effective::overlaid;
use kubelet_config::risk::Class;
use kubelet_config::verdict::assess;
use nodecfg_contract::Placement;
use nodecfg_fleet::Rendered;
use nodecfg_plan::changed_fields;

use super::KUBEADM_FILE;

/// Own file of the nodes of a pool that allows `allowed`: that of kubeadm, with the pool's value of each top-level field
/// that a first assignment could not change without a drain, or would take away to the nodes' harm.
///
/// The repository does not tell the own configuration of its nodes. With these values, a first rollout changes fields, and
/// no plan or agent refuses it.
pub(super) fn own_file(rendered: &Rendered, placement: Placement, allowed: Class, minor: Minor) -> String {
    let own = own_configuration(&rendered.document, placement, allowed.min(Class::Restart), minor);
    let text = own.map_or_else(|| rendered.canonical.clone(), |document| document.canonical());
    // The comment keeps the content different from the ConfigMap's, as that of a provisioned file is.
    format!("# As provisioned.\n{text}")
}

/// `None` if kubelets refuse the combination, or if its change is of a higher class than its parts.
fn own_configuration(pool: &Document, placement: Placement, allowed: Class, minor: Minor) -> Option<Document> {
    let kubeadm = Document::parse("own", KUBEADM_FILE).document?;
    let changed_above = |own: &Document| match placement {
        Placement::Overlay => fields_above(own, &overlaid(Some(own), pool), allowed, minor),
        Placement::Replace => fields_above(own, pool, allowed, minor),
    };
    let (values, mut own) = (pool.to_json(), kubeadm.to_json());
    let fields = own.as_object_mut()?;
    for field in changed_above(&kubeadm) {
        match values.get(&field) {
            Some(value) => fields.insert(field, value.clone()),
            None => fields.remove(&field),
        };
    }
    let own = Document::parse("own", &own.to_string()).document?;
    (changed_above(&own).is_empty() && assess(&own, minor).runs()).then_some(own)
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

    /// The fields that change when a pool with this body is laid over the own file of its nodes.
    fn first_changes(body: &str, allowed: Class, minor: Minor) -> Vec<String> {
        let document = Document::parse("f.yaml", &format!("{KIND}{body}")).document.unwrap();
        let canonical = document.canonical();
        let (hash, path) = (nodecfg_contract::ContentHash::of(canonical.as_bytes()), "f.yaml".to_owned());
        let rendered = Rendered { document, canonical, hash, config_map: "a".to_owned(), path };
        let own = own_file(&rendered, Placement::Overlay, allowed, minor);
        let own = Document::parse("own", &own).document.unwrap();
        let next = overlaid(Some(&own), &rendered.document);
        assert!(fields_above(&own, &next, allowed.min(Class::Restart), minor).is_empty(), "{body}");
        let changes = changed_fields(Some(&own), Some(&next), &BTreeSet::from([Some(minor)]));
        changes.into_iter().filter(|field| !field.no_effect).map(|field| field.change.path).collect()
    }

    #[test]
    fn first_assignment_changes_what_a_restart_can_change() {
        let found = |body: &str| first_changes(body, Class::Restart, kubelet_config::NEWEST);
        assert_eq!(found(""), [""; 0]);
        assert_eq!(found("clusterDomain: a.b\ncgroupDriver: systemd\n"), ["clusterDomain"]);
        assert_eq!(
            found("maxPods: 150\nimageGCHighThresholdPercent: 82\n"),
            ["imageGCHighThresholdPercent", "maxPods"]
        );
        assert_eq!(found("maxPods: 30\nregistryPullQPS: 2\n"), ["registryPullQPS"], "fewer pods need a drain");
        assert_eq!(found("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"), [""; 0]);
        assert_eq!(found("cgroupDriver: cgroupfs\n"), [""; 0]);
    }

    #[test]
    fn own_file_lacks_what_a_replacing_pool_would_take_away() {
        let fields = "maxPods: 150\ncpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n";
        let document = Document::parse("f.yaml", &format!("{KIND}{fields}")).document.unwrap();
        let own = own_configuration(&document, Placement::Replace, Class::Restart, Minor(30)).unwrap().to_json();
        let fields = ["staticPodPath", "clusterDNS", "cpuManagerPolicy"].map(|field| own[field].as_str());
        assert_eq!(fields, [None, None, Some("static")]);
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
