//! Checks of the binding and of the objects that its installation needs.

use std::collections::BTreeMap;

use super::access::unavailable;
use super::definition::{differences, is_established};
use super::{Check, DetectedBinding, Fact, Facts, NameSample, Pods, SyncFailure, count, not_checked, policies};
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::installation::AGENT_DAEMON_SET;
use nodecfg_observed::{Node, ServerVersion};

const INSTALL: &str = "update it with nodecfg install (--dry-run prints the changes)";

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    match &facts.bound {
        None => {}
        Some(Err(cause)) => checks.push(unavailable("binding", cause)),
        Some(Ok(bound)) => checks.push(binding(bound)),
    }
    if let Some(installed) = &facts.installed {
        checks.push(definition(&installed.definition));
        policies::examine(installed, facts.namespace.as_str(), checks);
        checks.push(pods(&installed.pods));
    }
    if let (Some(observed), Ok(server)) = (facts.observed(), &facts.server) {
        checks.extend(server.version.as_ref().ok().map(|version| kubelets(observed.nodes.values(), version)));
    }
}

fn binding(bound: &DetectedBinding) -> Check {
    let what = if bound.agents {
        "NodeConfigs hold the assignments, and node agents follow them"
    } else {
        "Nodes hold the assignments, and kubelets 1.11 to 1.23 follow them"
    };
    Check::ok("binding", format!("{what}: {}", bound.evidence))
}

fn definition(answer: &Fact<Option<serde_json::Value>>) -> Check {
    let found = match answer {
        Ok(Some(found)) => found,
        Ok(None) => {
            return Check::problem("definition", SyncFailure::Cluster, "the definition of NodeConfigs is missing")
                .fix("create it with nodecfg install, together with the roles and the agents (--dry-run prints them)");
        }
        Err(cause) => return not_checked("definition", cause),
    };
    if !is_established(found) {
        return Check::problem(
            "definition",
            SyncFailure::Cluster,
            "the API server does not serve the definition of NodeConfigs",
        )
        .fix("check its conditions: kubectl describe crd nodeconfigs.nodecfg.dev");
    }
    let differences = differences(found);
    if !differences.missing.is_empty() {
        let lost = NameSample::of(&differences.missing).named();
        let seen = format!(
            "the definition of NodeConfigs has an earlier version: values that agents write to {lost} are lost"
        );
        return Check::warning("definition", seen).fix(INSTALL);
    }
    if !differences.unknown.is_empty() {
        let more = NameSample::of(&differences.unknown).named();
        return Check::note(
            "definition",
            format!("the definition of NodeConfigs has a later version with additional fields: {more}"),
        )
        .fix("use the version of nodecfg that installed it; nodecfg install of this version would downgrade it");
    }
    if !differences.other.is_empty() {
        let other = NameSample::of(&differences.other).named();
        let seen = format!("the definition of NodeConfigs differs from that of this nodecfg version in {other}");
        return Check::warning("definition", seen).fix(INSTALL);
    }
    Check::ok("definition", "the definition of NodeConfigs equals that of this nodecfg version")
}

fn pods(answer: &Fact<Option<Pods>>) -> Check {
    match answer {
        Ok(Some(Pods { desired, ready })) if ready < desired => {
            Check::warning("daemon-set", format!("{ready} of {desired} pods of {AGENT_DAEMON_SET} are ready"))
                .fix("check the other pods: kubectl -n nodecfg-agent get pods -o wide")
        }
        Ok(Some(Pods { desired, .. })) => {
            Check::ok("daemon-set", format!("all {desired} pods of {AGENT_DAEMON_SET} are ready"))
        }
        Ok(None) => Check::note(
            "daemon-set",
            format!("DaemonSet {AGENT_DAEMON_SET} is missing in namespace nodecfg-agent"),
        )
        .fix(
            "nothing to do if agents run as services of the nodes or in another namespace; otherwise create it with \
                 `nodecfg install --agent daemonset --image IMAGE`",
        ),
        Err(cause) => not_checked("daemon-set", cause),
    }
}

/// Check of the version skew. A kubelet may be three minor versions older from API server 1.28 on, two before
/// (<https://kubernetes.io/releases/version-skew-policy/>), and never newer.
fn kubelets<'a>(nodes: impl Iterator<Item = &'a Node>, server: &ServerVersion) -> Check {
    let mut versions: BTreeMap<Option<KubeletVersion>, usize> = BTreeMap::new();
    let (mut newer, mut older) = (NameSample::default(), NameSample::default());
    for node in nodes {
        *versions.entry(node.kubelet_version).or_default() += 1;
        let (Some(kubelet), Some((major, minor))) = (node.kubelet_version, server.release) else { continue };
        let oldest = minor.saturating_sub(if minor >= 28 { 3 } else { 2 });
        if (kubelet.major, kubelet.minor) > (major, minor) {
            newer.add(&node.name);
        } else if (kubelet.major, kubelet.minor) < (major, oldest) {
            older.add(&node.name);
        }
    }
    let listed: Vec<String> = versions
        .into_iter()
        .rev()
        .map(|(version, number)| match version {
            Some(version) => format!("{version} on {}", count(number, "node")),
            None => format!("unknown on {}", count(number, "node")),
        })
        .collect();
    let listed = if listed.is_empty() { "the cluster has no nodes".to_owned() } else { listed.join(", ") };
    match (newer.number, older.number) {
        (0, 0) => Check::ok("kubelet-version", listed),
        (0, _) => Check::warning(
            "kubelet-version",
            format!("the kubelets of {} are older than API server {server} supports", older.counted("node")),
        )
        .fix("upgrade the kubelets; see Kubernetes' version skew policy"),
        _ => Check::warning(
            "kubelet-version",
            format!("the kubelets of {} are newer than API server {server}", newer.counted("node")),
        )
        .fix("upgrade the control plane before the nodes"),
    }
}
