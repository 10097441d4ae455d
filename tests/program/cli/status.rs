//! Tests of `status`.

use crate::cli::cluster::Cluster;
use crate::cli::program::shows;
use crate::cli::repository::{Folder, gpu};

#[test]
fn prints_every_node() {
    let empty = Folder::with(&[]);
    let cluster = Cluster::start(&["gpu", "spare"], 2, &["gpu-2=validate-error"]);
    shows!("status-fresh", cluster.run(empty.path(), "status").shown());
    assert_eq!(cluster.run(gpu().path(), "sync --allow-empty").exit, 5);
    shows!("status", cluster.run(empty.path(), "status").shown());
    shows!("status-markdown", cluster.run(empty.path(), "status -o markdown").shown());

    let logged = cluster.run(empty.path(), "status -vv").err;
    assert!(logged.contains("GET /api/v1/nodes?") && logged.contains(" 200\n"), "{logged}");

    let json: serde_json::Value = serde_json::from_str(&cluster.run(empty.path(), "status -o json").out).unwrap();
    assert_eq!(json["kind"], "Status");
    let states: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|node| &node["verdict"]["state"]).collect();
    assert_eq!(states, ["converged", "failed", "converged", "converged"]);
    assert_eq!((&json["pools"][0]["pool"], &json["pools"][0]["worst"]), (&"gpu".into(), &"failed".into()));
}

#[test]
fn prints_empty_cluster() {
    let empty = Folder::with(&[]);
    let cluster = Cluster::start(&[], 0, &[]);
    let status = cluster.run(empty.path(), "status");
    assert_eq!((status.exit, status.out.as_str()), (0, "No nodes.\n"));
}
