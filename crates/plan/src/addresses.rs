//! Check of a pool's `maxPods` against the pod addresses of its nodes.

use std::collections::BTreeMap;

use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::verdict::{Stage, Verdict, configuration};
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::{Pool, Rendered};
use nodecfg_observed::Observed;

/// Warns if `maxPods`, set or by default, exceeds the addresses in the `spec.podCIDR` of a node: surplus pods are
/// scheduled but get no address. This is only a warning, because some network plugins use other address ranges.
pub(super) fn check_pod_addresses(
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
    // A configuration that the kubelet cannot decode has no `maxPods`.
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
    // The narrowest range determines the recommended value.
    let (range, example) = short.iter().min_by_key(|(range, name)| (range.pods(), *name))?;
    let (has, others) = match short.len() {
        1 => ("has", String::new()),
        more => ("have", format!(", and {} more of its nodes,", more - 1)),
    };
    let message = format!(
        "pool {}: `maxPods` is {most}, but node {example}{others} {has} addresses for at most {} pods (podCIDR /{})",
        pool.name,
        range.pods(),
        range.prefix()
    );
    let help = format!(
        "set maxPods to {} or less; ignore this if the network plugin does not take pod addresses from the podCIDR of \
         the Node",
        range.pods()
    );
    Some(Finding::warning("max-pods-over-addresses", message).at(place?).field("maxPods").kubelets(minors).help(help))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{desired, node, observed, options, policy, pool, rendered_of};
    use super::super::make;
    use kubelet_config::capacity::PodRange;
    use kubelet_config::finding::Severity;
    use nodecfg_fleet::PoolTarget;
    use nodecfg_observed::Node;

    fn warnings(text: &str, ranges: &[Option<&str>]) -> Vec<(Severity, String, usize)> {
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
    fn warns_about_node_with_too_few_addresses() {
        assert_eq!(
            warnings("maxPods: 250", &[Some("10.0.0.0/24"), Some("10.0.1.0/25")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 250, but node n1 has addresses for at most 126 pods (podCIDR /25)".to_owned(),
                3
            )]
        );
    }

    #[test]
    fn names_narrowest_range_and_uses_default_max_pods() {
        assert_eq!(
            warnings("port: 10250", &[Some("10.0.0.0/26"), Some("10.0.1.0/27"), None, Some("10.0.2.0/26")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 110, but node n1, and 2 more of its nodes, have addresses for at most 30 pods \
                 (podCIDR /27)"
                    .to_owned(),
                1
            )]
        );
    }

    #[test]
    fn accepts_sufficient_or_unknown_addresses() {
        assert_eq!(warnings("maxPods: 254", &[Some("10.0.0.0/24"), Some("fd00::/64"), None]), []);
    }
}
