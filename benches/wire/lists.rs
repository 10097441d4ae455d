//! Measures lists of 15,000 Nodes over HTTPS and in-process.

use std::time::Instant;

use nodecfg_cluster::{ClusterReader, LabelKeys, ReaderOptions};
use nodecfg_contract::labels::POOL_LABEL;

use super::figures::Figures;
use super::fleet::{NODES, POOLS};
use super::quantile;
use super::sandbox::{SandboxSize, ServedSandbox, V1_21, client};

const ROUNDS: usize = 7;

pub async fn measure(figures: &mut Figures) {
    println!("{:>6}  {:<12} {:>8} {:>12}", "images", "", "wall s", "nodes/s");
    for images in [0, 50] {
        let served =
            ServedSandbox::start(SandboxSize { nodes: NODES, pools: POOLS, images, kubelets: None, version: V1_21 })
                .await;
        let keys = LabelKeys::Only([POOL_LABEL.to_owned()].into());
        let options = || ReaderOptions { label_keys: keys.clone(), ..ReaderOptions::default() };
        let (over_https, server) = client(&served.kubeconfig()).await;
        let readers = [
            ("in-process", ClusterReader::new(served.embedded.client(), "", options())),
            ("HTTPS", ClusterReader::new(over_https, &server, options())),
        ];
        for (name, reader) in readers {
            let mut seconds = Vec::new();
            for _ in 0..ROUNDS {
                let began = Instant::now();
                let (nodes, _) = reader.list_nodes().await.expect("a list");
                assert_eq!(nodes.len(), NODES);
                seconds.push(began.elapsed().as_secs_f64());
            }
            let median = quantile(&seconds, 0.5);
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let rate = NODES as f64 / median;
            let place = if name == "HTTPS" { "over HTTPS" } else { "in the process" };
            figures.note(&format!("15,000 Nodes with {images} images, listed {place}: wall"), median);
            println!("{images:>6}  {name:<12} {median:>8.2} {rate:>12.0}");
        }
        served.stop().await;
    }
}
