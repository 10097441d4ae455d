//! Measures a rollout that drains every node: 1,000 nodes in ten pools, with 30 pods on each node.

use std::collections::BTreeMap;
use std::time::Instant;

use nodecfg_sandbox::workloads::WorkloadSpec;
use tokio::sync::mpsc::UnboundedReceiver;

use super::figures::Figures;
use super::fleet::pool_name;
use super::program::{nodecfg, run, shown};
use super::sandbox::{SandboxSize, ServedSandbox, Stamp, V1_21};

const NODES: u16 = 1000;
const POOLS: usize = 10;
const PODS: usize = 30;
/// Nodes of a pool that may be unavailable at the same time.
const MAX_UNAVAILABLE: usize = 5;
/// Speed of kubelets and controllers, where 1 is real time.
const SPEED: f64 = 20.0;
/// Accepts the first configuration without drains.
const ACCEPT: (&str, &str) = ("{mode: accept}", "cpuManagerPolicy: none\n");
/// Drains all nodes.
const EVICT: (&str, &str) = ("{mode: evict, settle: 1s}", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n");

pub async fn measure(figures: &mut Figures) {
    let began = Instant::now();
    let workloads = WorkloadSpec::filling(usize::from(NODES), PODS);
    let size =
        SandboxSize { nodes: usize::from(NODES), pools: POOLS, images: 50, kubelets: Some(SPEED), version: V1_21 };
    let served = ServedSandbox::with_workloads(size, Some(workloads)).await;
    println!("{:<36} {:>8.2} s", "create nodes and pods", began.elapsed().as_secs_f64());
    let kubeconfig = served.kubeconfig();
    let kubeconfig = kubeconfig.to_string_lossy();
    let (mut stamps, log) = (served.stamps(), &served.embedded.wire().log);
    for (what, policy) in [("sync, nothing to drain", ACCEPT), ("sync, all nodes to drain", EVICT)] {
        let repository = served.repository(&repository(policy));
        log.clear();
        let _ = watches(&mut stamps);
        let cost = run(nodecfg(["sync", &*repository.to_string_lossy(), "--kubeconfig", &*kubeconfig])).await;
        println!(
            "{what:<36} {:>8.2} s wall, {} s CPU, peak {} MB, {}",
            cost.wall.as_secs_f64(),
            shown(cost.cpu),
            shown(cost.peak),
            cost.status
        );
        assert!(cost.status.success(), "the sync ends with {}", cost.status);
        let (opened, at_a_time) = watches(&mut stamps);
        println!("    {opened} watches of pods, {at_a_time} at the same time; requests:");
        for ((verb, resource), count) in log.counters() {
            println!("    {count:>6}  {verb} {}", if resource.is_empty() { "(version)" } else { &resource });
        }
        let cluster = if policy == EVICT { "all drained" } else { "nothing to drain" };
        let cluster = format!("1,000 nodes with 30 pods, {cluster}");
        if let Some(cpu) = cost.cpu {
            figures.note(&format!("{cluster}: CPU for each node"), cpu * 1e3 / f64::from(NODES));
            println!("    {:.2} ms CPU for each node", cpu * 1e3 / f64::from(NODES));
        }
        if let (EVICT, Some(peak)) = (policy, cost.peak) {
            figures.note(&format!("{cluster}: peak"), peak);
            figures.note(&format!("{cluster}: watches of pods at a time"), at_a_time as f64);
        }
    }
    println!("Budgets: {MAX_UNAVAILABLE} nodes in each of {POOLS} pools.");
    served.stop().await;
}

fn repository((drain, fields): (&str, &str)) -> BTreeMap<String, String> {
    let fleet = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata:\n  name: bench\nspec:\n  rollout:\n    \
         maxUnavailable: {MAX_UNAVAILABLE}\n    allowDisruption: drain\n    drain: {drain}\n"
    );
    // The nodes run these values, and a sync refuses to take them away.
    let configuration = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n\
         authentication: {{x509: {{clientCAFile: /etc/kubernetes/pki/ca.crt}}}}\nclusterDNS: [10.96.0.10]\n\
         clusterDomain: cluster.local\nresolvConf: /run/systemd/resolve/resolv.conf\nrotateCertificates: true\n\
         staticPodPath: /etc/kubernetes/manifests\n{fields}"
    );
    let pools = (0..POOLS).map(|pool| (format!("pools/{}/kubelet.yaml", pool_name(pool)), configuration.clone()));
    pools.chain([("nodecfg.yaml".to_owned(), fleet)]).collect()
}

/// Number of watches of pods that were opened since the last call, and the most at the same time.
fn watches(stamps: &mut UnboundedReceiver<Stamp>) -> (usize, usize) {
    let (mut opened, mut open, mut most) = (0, 0_usize, 0);
    while let Ok(stamp) = stamps.try_recv() {
        if stamp.verb != "watch" || stamp.resource != "pods" {
            continue;
        }
        if stamp.closed {
            open = open.saturating_sub(1);
        } else if stamp.answered.is_none() {
            (opened, open) = (opened + 1, open + 1);
            most = most.max(open);
        }
    }
    (opened, most)
}
