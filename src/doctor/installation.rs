//! Where the assignments are, and whether what has to be installed for that is there.

use std::collections::BTreeMap;

use super::access::troubled;
use super::definition::{differences, is_established};
use super::{Answer, Bound, Check, Ending, Facts, Few, Pods, Unavailable, count};
use nodecfg_contract::installation::{AGENT_DAEMON_SET, OWN_STATUS_POLICY};
use nodecfg_contract::observed::{KubeletVersion, Node, ServerVersion};

const INSTALL: &str = "nodecfg install (--dry-run shows what that is) brings it up to date";

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    match &facts.bound {
        None => {}
        Some(Err(trouble)) => checks.push(troubled("binding", trouble)),
        Some(Ok(bound)) => checks.push(binding(bound)),
    }
    if let Some(answer) = &facts.installed.definition {
        checks.push(definition(answer));
    }
    if let Some(answer) = &facts.installed.policy {
        checks.push(match answer {
            Ok(true) => Check::ok("admission-policy", format!("{OWN_STATUS_POLICY} is there")),
            Ok(false) => Check::warning(
                "admission-policy",
                format!(
                    "there is no ValidatingAdmissionPolicy {OWN_STATUS_POLICY}: whoever has taken over one node can report for all"
                ),
            )
            .mend("nodecfg install with --agent makes it, on API servers from 1.30 on"),
            Err(trouble) => unseen("admission-policy", trouble),
        });
    }
    if let Some(answer) = &facts.installed.pods {
        checks.push(pods(answer));
    }
    if let (Some(observed), Ok(server)) = (facts.observed(), &facts.server) {
        checks.extend(server.version.as_ref().ok().map(|version| kubelets(observed.nodes.values(), version)));
    }
}

/// What no sync needs to see, and this user may not: not worth a word but on request.
fn unseen(code: &'static str, trouble: &Unavailable) -> Check {
    Check::unknown(code, format!("not looked at: {}; no sync needs to", trouble.message))
}

fn binding(bound: &Bound) -> Check {
    let what = if bound.agents {
        "NodeConfigs carry the assignments, which node agents follow"
    } else {
        "the Nodes carry the assignments, which kubelets 1.11 to 1.23 follow"
    };
    Check::ok("binding", format!("{what}: {}", bound.evidence))
}

fn definition(answer: &Answer<Option<serde_json::Value>>) -> Check {
    let found = match answer {
        Ok(Some(found)) => found,
        Ok(None) => {
            return Check::problem("definition", Ending::Cluster, "there is no definition of NodeConfigs").mend(
                "nodecfg install makes it, with the roles and the agents that belong to it (--dry-run shows them)",
            );
        }
        Err(trouble) => return unseen("definition", trouble),
    };
    if !is_established(found) {
        return Check::problem("definition", Ending::Cluster, "the definition of NodeConfigs is there and not served")
            .mend("look at its conditions: kubectl describe crd nodeconfigs.nodecfg.dev");
    }
    let differences = differences(found);
    if !differences.missing.is_empty() {
        let lost = Few::of(&differences.missing).named();
        let seen =
            format!("the definition of NodeConfigs is of an earlier version: what agents write to {lost} is lost");
        return Check::warning("definition", seen).mend(INSTALL);
    }
    if !differences.unknown.is_empty() {
        let more = Few::of(&differences.unknown).named();
        return Check::note(
            "definition",
            format!("the definition of NodeConfigs is of a later version: it knows {more}"),
        )
        .mend("use the version of nodecfg that installed it; nodecfg install of this one would take it back");
    }
    if !differences.other.is_empty() {
        let other = Few::of(&differences.other).named();
        let seen = format!("the definition of NodeConfigs is not as this version has it: {other} differs");
        return Check::warning("definition", seen).mend(INSTALL);
    }
    Check::ok("definition", "that of NodeConfigs is as this version of nodecfg has it")
}

fn pods(answer: &Answer<Option<Pods>>) -> Check {
    match answer {
        Ok(Some(Pods { desired, ready })) if ready < desired => {
            Check::warning("daemon-set", format!("{ready} of {desired} pods of {AGENT_DAEMON_SET} are ready"))
                .mend("look at the others: kubectl -n nodecfg-agent get pods -o wide")
        }
        Ok(Some(Pods { desired, .. })) => {
            Check::ok("daemon-set", format!("all {desired} pods of {AGENT_DAEMON_SET} are ready"))
        }
        Ok(None) => Check::note("daemon-set", format!("there is no DaemonSet {AGENT_DAEMON_SET} in namespace nodecfg-agent"))
            .mend(
                "nothing to do where agents run as services of the nodes or in another namespace; otherwise nodecfg install \
                 --agent daemonset makes it",
            ),
        Err(trouble) => unseen("daemon-set", trouble),
    }
}

/// How old a kubelet may be: three minor versions from API server 1.28 on, two before
/// (<https://kubernetes.io/releases/version-skew-policy/>). It is never to be newer.
fn kubelets<'a>(nodes: impl Iterator<Item = &'a Node>, server: &ServerVersion) -> Check {
    let mut versions: BTreeMap<Option<KubeletVersion>, usize> = BTreeMap::new();
    let (mut newer, mut older) = (Few::default(), Few::default());
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
            None => format!("none readable on {}", count(number, "node")),
        })
        .collect();
    let listed = if listed.is_empty() { "there are no nodes".to_owned() } else { listed.join(", ") };
    match (newer.number, older.number) {
        (0, 0) => Check::ok("kubelet-version", listed),
        (0, _) => Check::warning(
            "kubelet-version",
            format!("the kubelets of {} are older than API server {server} supports", older.counted("node")),
        )
        .mend("upgrade them; Kubernetes' version skew policy says how far apart they may be"),
        _ => Check::warning(
            "kubelet-version",
            format!("the kubelets of {} are newer than API server {server}", newer.counted("node")),
        )
        .mend("upgrade the control plane before the nodes"),
    }
}
