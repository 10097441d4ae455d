//! The permissions that the README asks for are enough, and nothing in them is for nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use nodecfg::clock;
use nodecfg::names::PoolName;
use nodecfg::sandbox::api::{Api, ApiOptions, Rule, User};
use nodecfg::sandbox::face::kubeconfig::Kubeconfig;
use nodecfg::sandbox::face::serve::{Options, serve};
use nodecfg::sandbox::face::wire::Wire;
use nodecfg::sandbox::kubelets::{self, Kubelets};
use nodecfg::sandbox::nodes;
use serde_json::Value;

const TOKEN: &str = "the-readmes-user";

/// A permission: verb, resource, namespace.
type Grant = (String, String, String);

/// The rules in the README's YAML block, each with its namespace.
fn rules() -> Vec<Rule> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let rbac: Vec<&str> = blocks
        .into_iter()
        .filter(|block| block.contains("rbac.authorization.k8s.io"))
        .flat_map(|block| block.split("---\n"))
        .collect();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rules = Vec::new();
    for document in rbac {
        let document: Value = serde_saphyr::from_str(document).unwrap();
        let namespace = match document["kind"].as_str().unwrap() {
            "ClusterRole" => None,
            "Role" => Some(document["metadata"]["namespace"].as_str().unwrap().to_owned()),
            kind => panic!("{kind}"),
        };
        for rule in document["rules"].as_array().unwrap() {
            rules.push(Rule {
                verbs: texts(&rule["verbs"]),
                groups: texts(&rule["apiGroups"]),
                resources: texts(&rule["resources"]),
                namespace: namespace.clone(),
            });
        }
    }
    rules
}

fn grants(rules: &[Rule]) -> BTreeSet<Grant> {
    let of = |rule: &Rule| {
        let namespace = rule.namespace.clone().unwrap_or_default();
        let pairs = rule.verbs.iter().flat_map(|verb| rule.resources.iter().map(move |resource| (verb, resource)));
        pairs.map(|(verb, resource)| (verb.clone(), resource.clone(), namespace.clone())).collect::<Vec<_>>()
    };
    rules.iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readmes_roles_are_enough_and_no_more() {
    let rules = rules();
    let granted = grants(&rules);
    assert!(granted.len() >= 8, "{granted:?}");

    let api = Api::new(ApiOptions {
        tokens: BTreeMap::from([(TOKEN.to_owned(), User::with_rules("nodecfg", rules))]),
        ..ApiOptions::default()
    });
    let pools = ["general", "gpu"].map(|pool| PoolName::new(pool).unwrap());
    let specs = nodes::generic(4, &pools, "v1.21.14").unwrap();
    nodes::create(&api.client(), specs, clock::now(), 0, 4).await.unwrap();
    let kubelets = Kubelets::start(api.client(), kubelets::Options { speed: 100.0, ..kubelets::Options::default() })
        .await
        .unwrap();
    let wire = Wire::new();
    let serving = serve(wire.wrap(api.router()), Options::default()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: TOKEN.to_owned() }
        .save(&kubeconfig)
        .unwrap();

    for (command, exit) in [("diff", 1), ("sync", 0), ("verify", 0), ("status", 0), ("diff", 0)] {
        let mut nodecfg = Command::new(env!("CARGO_BIN_EXE_nodecfg"));
        nodecfg.arg(command).arg("--kubeconfig").arg(&kubeconfig);
        if command != "status" {
            nodecfg.arg("--worktree").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/zero-config"));
        }
        let output = tokio::task::spawn_blocking(move || nodecfg.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{command}: {said}");
    }

    let entries = wire.log.entries();
    let refused: Vec<String> = entries
        .iter()
        .filter(|entry| entry.status.is_some_and(|status| status == 403))
        .map(ToString::to_string)
        .collect();
    assert!(refused.is_empty(), "the README's roles do not allow: {refused:#?}");
    let used: BTreeSet<Grant> = entries
        .iter()
        .map(|entry| {
            let request = &entry.request;
            (request.verb.to_owned(), request.resource.clone(), request.namespace.clone())
        })
        .collect();
    // A Node is read again only when somebody else changed it between plan and patch.
    let seldom = ("get".to_owned(), "nodes".to_owned(), String::new());
    let unused: Vec<&Grant> = granted.difference(&used).filter(|grant| **grant != seldom).collect();
    assert!(unused.is_empty(), "the README's roles allow more than is used: {unused:?}, used: {used:?}");

    kubelets.stop().await;
}
