//! Whether a pool's nodes have addresses for as many pods as its configuration lets them take.

use std::collections::BTreeMap;

use crate::desired::{Pool, Rendered};
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::verdict::{Stage, Verdict, configuration};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::Observed;

/// A warning when `maxPods`, written or by default, is more than the `spec.podCIDR` of some node has addresses for: pods
/// beyond that are scheduled and wait in vain. No more than a warning, since there are network plugins that take addresses
/// from elsewhere.
pub(super) fn too_few(
    pool: &Pool,
    rendered: &Rendered,
    verdicts: &[Verdict],
    nodes: &BTreeMap<Minor, Vec<&NodeName>>,
    observed: &Observed,
) -> Option<Finding> {
    let mut short = Vec::new();
    let mut minors = Vec::new();
    let mut most = 0;
    let mut place = None;
    // What a kubelet cannot decode has no value that could be too large.
    for verdict in verdicts.iter().filter(|verdict| verdict.stage != Stage::Load) {
        let Some(names) = nodes.get(&verdict.minor) else { continue };
        let config = configuration(&rendered.document, verdict.minor);
        let Some(pods) = config.int("maxPods") else { continue };
        let before = short.len();
        short.extend(names.iter().filter_map(|name| {
            let range = observed.nodes.get(*name)?.pod_range?;
            (!range.fits(pods)).then_some((range, *name))
        }));
        if short.len() > before {
            minors.push(verdict.minor);
            most = pods;
            place.get_or_insert_with(|| config.place("maxPods"));
        }
    }
    // The narrowest range says how low to go.
    let (range, example) = short.iter().min_by_key(|(range, name)| (range.pods(), *name))?;
    let (has, others) = match short.len() {
        1 => ("has", String::new()),
        more => ("have", format!(", and {} more of its nodes,", more - 1)),
    };
    let message = format!(
        "pool {}: `maxPods` is {most}, and node {example}{others} {has} addresses for no more than {} pods (a podCIDR of /{})",
        pool.name,
        range.pods(),
        range.prefix()
    );
    let help = format!(
        "write maxPods: {} or less; where the network plugin does not take pods' addresses from the Node's podCIDR, nothing \
         is wrong",
        range.pods()
    );
    Some(Finding::warning("max-pods-over-addresses", message).at(place?).field("maxPods").kubelets(minors).help(help))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{desired, node, observed, options, policy, pool, rendered_of};
    use super::super::make;
    use crate::desired::PoolTarget;
    use kubelet_config::finding::Severity;
    use kubelet_config::pod_range::PodRange;
    use nodecfg_contract::observed::Node;

    fn said(text: &str, ranges: &[Option<&str>]) -> Vec<(Severity, String, usize)> {
        let with = |(at, range): (usize, &Option<&str>)| Node {
            pod_range: range.and_then(PodRange::parse),
            ..node(&format!("n{at}"), "gpu")
        };
        let cluster = observed(ranges.iter().enumerate().map(with));
        let mut pool = pool("gpu", 10, policy(1));
        pool.target = PoolTarget::Config(Box::new(rendered_of("gpu", text)));
        let plan = make(&desired([pool]), &cluster, &options()).expect("a plan");
        let found = plan.findings.into_iter().filter(|finding| finding.code == "max-pods-over-addresses");
        found.map(|f| (f.severity, f.message, f.place.map_or(0, |place| place.line))).collect()
    }

    #[test]
    fn a_node_with_too_few_addresses_is_told() {
        assert_eq!(
            said("maxPods: 250", &[Some("10.0.0.0/24"), Some("10.0.1.0/25")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 250, and node n1 has addresses for no more than 126 pods (a podCIDR of /25)"
                    .to_owned(),
                3
            )]
        );
    }

    #[test]
    fn of_many_nodes_the_narrowest_is_named_and_the_default_counts() {
        assert_eq!(
            said("port: 10250", &[Some("10.0.0.0/26"), Some("10.0.1.0/27"), None, Some("10.0.2.0/26")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 110, and node n1, and 2 more of its nodes, have addresses for no more than 30 pods (a \
                 podCIDR of /27)"
                    .to_owned(),
                1
            )]
        );
    }

    #[test]
    fn enough_or_unknown_is_no_remark() {
        assert_eq!(said("maxPods: 254", &[Some("10.0.0.0/24"), Some("fd00::/64"), None]), []);
    }
}
