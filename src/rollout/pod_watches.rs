//! Watches of the pods of nodes that are drained, one per node. The budgets of the pools bound their number.

use std::collections::BTreeMap;
use std::pin::Pin;

use futures::stream::SelectAll;
use futures::{Stream, StreamExt as _};
use tokio::sync::oneshot;

use nodecfg_cluster::{ClusterError, ClusterReader, PodEvent};
use nodecfg_contract::names::NodeName;
use nodecfg_rollout::evictions::PodChange;

type PodStream = Pin<Box<dyn Stream<Item = (NodeName, Result<PodChange, ClusterError>)> + Send>>;

/// Watches by node.
#[derive(Default)]
pub(super) struct PodWatches {
    streams: SelectAll<PodStream>,
    /// Ends a watch when dropped.
    open: BTreeMap<NodeName, oneshot::Sender<()>>,
}

impl PodWatches {
    /// Opens the watch of a node.
    pub(super) fn open(&mut self, node: NodeName, reader: &ClusterReader) {
        let (end, ended) = oneshot::channel();
        let name = node.clone();
        let changes = reader.watch_pods(&node).map(move |event| (name.clone(), event.map(to_change)));
        self.streams.push(Box::pin(changes.take_until(ended)));
        self.open.insert(node, end);
    }

    /// Closes the watch of a node.
    pub(super) fn close(&mut self, node: &NodeName) {
        self.open.remove(node);
    }

    /// The next change of an open watch. Never returns without one.
    pub(super) async fn next(&mut self) -> (NodeName, Result<PodChange, ClusterError>) {
        loop {
            match self.streams.next().await {
                Some((node, change)) if self.open.contains_key(&node) => return (node, change),
                // From a watch that was closed.
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

fn to_change(event: PodEvent) -> PodChange {
    match event {
        PodEvent::Upsert(pod) => PodChange::Present(pod),
        PodEvent::Gone { uid } => PodChange::Gone(uid),
        PodEvent::Relisted(pods) => PodChange::Listed(pods),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use nodecfg_cluster::connection::fake::{Reply, reader};
    use nodecfg_plan::fixtures::node_name;

    /// A released node must cost no connection until the end of the run.
    #[tokio::test]
    async fn closed_watch_ends() {
        let (reader, _) = reader(vec![Reply::Pieces(Vec::new(), true)]);
        let mut watches = PodWatches::default();
        watches.open(node_name("n1"), &reader);
        tokio::time::timeout(Duration::from_millis(50), watches.next()).await.expect_err("no change");
        assert_eq!(watches.streams.len(), 1);
        watches.close(&node_name("n1"));
        tokio::time::timeout(Duration::from_millis(50), watches.next()).await.expect_err("no change");
        assert_eq!(watches.streams.len(), 0);
    }
}
