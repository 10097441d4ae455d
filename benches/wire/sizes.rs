//! Measures a diff of 15,000 nodes of 12 sizes in 20 pools, with and without reservations that follow from the size.

use super::figures::Figures;
use super::fleet::{self, NODES};
use super::node_configs::median_cpu;
use super::program::{nodecfg, run, shown};
use super::sandbox::{SandboxSize, ServedSandbox, V1_21};

const POOLS: usize = 20;
/// Runs of each diff. The median counts.
const RUNS: usize = 5;
/// Speed of the kubelets, where 1 is real time; high, so that the rollouts between the diffs are short.
const SPEED: f64 = 1000.0;

pub async fn measure(figures: &mut Figures) {
    let size = SandboxSize { nodes: NODES, pools: POOLS, images: 0, kubelets: Some(SPEED), version: V1_21 };
    let served = ServedSandbox::of_capacities(size, |node| fleet::capacity(node / POOLS)).await;
    let kubeconfig = served.kubeconfig();
    let kubeconfig = kubeconfig.to_string_lossy();
    for with_sizes in [false, true] {
        let name = if with_sizes { "with 12 sizes" } else { "without sizes" };
        let repository = |revision| {
            let files = match with_sizes {
                false => fleet::repository(POOLS, revision, "10%"),
                true => fleet::repository_with_sizes(POOLS, revision),
            };
            served.repository(&files).to_string_lossy().into_owned()
        };
        let command = |name, repository: &str| nodecfg([name, repository, "--kubeconfig", &*kubeconfig]);
        let assigned = run(command("sync", &repository(1))).await;
        assert!(assigned.status.success(), "sync {name}: {}", assigned.status);
        for (what, revision, code) in [("nothing to do", 1, 0), ("all nodes from another revision", 2, 1)] {
            let repository = repository(revision);
            let mut costs = Vec::new();
            for _ in 0..RUNS {
                let cost = run(command("diff", &repository)).await;
                assert_eq!(cost.status.code(), Some(code), "diff {name}, {what}");
                println!("diff {name}, {what:<32} {:>8.2} {:>8}", cost.wall.as_secs_f64(), shown(cost.cpu));
                costs.push(cost);
            }
            figures.note(&format!("15,000 Nodes in 20 pools: diff {name}, {what}, CPU"), median_cpu(&costs));
        }
    }
    served.stop().await;
}
