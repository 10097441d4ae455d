//! Measures 15,000 nodes in 200 pools, with Nodes of three sizes: creation in a sandbox, diff, rollout, and a sync
//! without changes.

use std::time::Instant;

use super::figures::Figures;
use super::fleet::{self, NODES, POOLS};
use super::program::{Cost, nodecfg, run, shown};
use super::sandbox::{SandboxSize, ServedSandbox, V1_21};

/// Container images per Node. A kubelet reports 50 by default.
const IMAGES: [usize; 3] = [0, 50, 200];
/// Speed of the kubelets, where 1 is real time; high, so that nodecfg is the bottleneck.
const SPEED: f64 = 1000.0;

pub async fn measure(figures: &mut Figures) {
    println!("{:>6}  {:<28} {:>8} {:>8} {:>10}", "images", "", "wall s", "cpu s", "peak MB");
    for images in IMAGES {
        let began = Instant::now();
        let served = ServedSandbox::start(SandboxSize {
            nodes: NODES,
            pools: POOLS,
            images,
            kubelets: Some(SPEED),
            version: V1_21,
        })
        .await;
        println!("{images:>6}  {:<28} {:>8.2}", "create the sandbox's nodes", began.elapsed().as_secs_f64());
        let repository = served.repository(&fleet::repository(POOLS, 1, "10%"));
        let kubeconfig = served.kubeconfig();
        let (repository, kubeconfig) = (repository.to_string_lossy(), kubeconfig.to_string_lossy());
        let command = |name| nodecfg([name, &*repository, "--kubeconfig", &*kubeconfig]);
        row(figures, images, "diff, all nodes to assign", &run(command("diff")).await);
        row(figures, images, "sync, all nodes to assign", &run(command("sync")).await);
        let log = &served.embedded.wire().log;
        log.clear();
        row(figures, images, "sync, nothing to do", &run(command("sync")).await);
        let requests = log.counters();
        let writes = log.writes();
        for _ in 0..2 {
            row(figures, images, "sync, nothing to do", &run(command("sync")).await);
        }
        println!("        requests of a sync with nothing to do:");
        for ((verb, resource), count) in requests {
            let resource = if resource.is_empty() { "(version)" } else { &resource };
            println!("        {count:>6}  {verb} {resource}");
        }
        for write in writes {
            println!("        writes: {write}");
        }
        served.stop().await;
    }
}

fn row(figures: &mut Figures, images: usize, what: &str, cost: &Cost) {
    // A diff with changes ends with 1.
    let succeeded = cost.status.success() || (what.starts_with("diff") && cost.status.code() == Some(1));
    assert!(succeeded, "{what}: {}", cost.status);
    for (name, value) in [("CPU", cost.cpu), ("peak", cost.peak)] {
        if let Some(value) = value {
            figures.note(&format!("15,000 Nodes with {images} images: {what}, {name}"), value);
        }
    }
    println!(
        "{images:>6}  {what:<28} {:>8.2} {:>8} {:>10}  {}",
        cost.wall.as_secs_f64(),
        shown(cost.cpu),
        shown(cost.peak),
        cost.status
    );
}
