//! An agent runs only reviewed content, and disrupts no pod beyond what spec allows.

use std::time::Duration;

use serde_json::json;

use crate::test_env::{NAMESPACE, TestEnv};
use crate::{scenarios, until};
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};

scenarios![
    refuses_replaced_content_and_adopts_the_reviewed_one,
    without_content_hash_accepts_only_the_hash_in_the_name,
    first_assignment_needs_prepared_node,
    reset_needs_prepared_node,
];

const OTHER_CONTENT: &str = "failed to sync: the content of the ConfigMap does not match spec.contentHash";

fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map(NAMESPACE, name, KUBELET_KEY)
}

fn uid_of_active(env: &TestEnv) -> String {
    env.status()["config"]["active"]["configMap"]["uid"].to_string()
}

async fn refuses_replaced_content_and_adopts_the_reviewed_one(env: TestEnv) {
    let agent = env.start_agent();
    let reviewed = env.host.configuration(50);
    env.create_immutable_config_map("a", &reviewed);
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    let before = uid_of_active(&env);
    agent.kill();
    env.replace_config_map("a", &env.host.configuration(66)).await;
    // A starting agent reads its ConfigMap at once.
    let agent = env.start_agent();
    env.wait_for_status(&format!("a/a/a {OTHER_CONTENT}")).await;
    assert_eq!((env.condition("Synced").as_str(), uid_of_active(&env)), ("False OtherContent", before.clone()));
    assert_eq!(env.status()["contentHash"], json!(ContentHash::of(reviewed.as_bytes())));
    agent.kill();
    env.replace_config_map("a", &reviewed).await;
    let _agent = env.start_agent();
    env.wait_for_status("a/a/a").await;
    until("the ConfigMap that exists now is adopted", async || uid_of_active(&env) != before).await;
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn without_content_hash_accepts_only_the_hash_in_the_name(env: TestEnv) {
    let _agent = env.start_agent();
    let text = env.host.configuration(150);
    let named = format!("fleet-a-{}", ContentHash::of(text.as_bytes()).short());
    env.create_immutable_config_map("by-hand", &text);
    env.create_immutable_config_map(&named, &text);
    // As an earlier reconciler wrote it.
    env.create_node_config(json!({"configSource": source("by-hand")}));
    env.wait_for_status(&format!("-/-/- {OTHER_CONTENT}")).await;
    env.delete_node_config().await;
    env.create_node_config(json!({"configSource": source(&named)}));
    env.wait_for_status(&format!("{named}/{named}/{named}")).await;
    let restarts = env.host.journal();
    // The field arrives without a restart, and is enforced at once.
    env.patch_spec(json!({"contentHash": ContentHash::of(text.as_bytes())})).await;
    env.wait_for_observed_generation(2).await;
    env.wait_for_status(&format!("{named}/{named}/{named}")).await;
    env.patch_spec(json!({"contentHash": ContentHash::of(b"other")})).await;
    env.wait_for_status(&format!("{named}/{named}/{named} {OTHER_CONTENT}")).await;
    assert_eq!(env.host.journal(), restarts);
}

async fn first_assignment_needs_prepared_node(env: TestEnv) {
    let _agent = env.start_agent();
    let text = env.host.configuration(50);
    env.create_immutable_config_map("fewer-pods", &text);
    // The reconciler cannot know that the local configuration has more pods.
    env.create_node_config(
        json!({"configSource": source("fewer-pods"), "contentHash": ContentHash::of(text.as_bytes())}),
    );
    env.wait_for_status("-/-/- failed to sync: needs a drained node: maxPods").await;
    assert_eq!(env.condition("Synced"), "False NeedsDrain");
    env.pause().await;
    assert_eq!(env.host.journal(), ["started 110"]);
    env.patch_spec(json!({"maxDisruption": "drain"})).await;
    env.wait_for_status("fewer-pods/fewer-pods/fewer-pods").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn reset_needs_prepared_node(env: TestEnv) {
    let _agent = env.start_agent();
    let text = env.host.configuration(150);
    env.create_immutable_config_map("a", &text);
    env.create_node_config(json!({"configSource": source("a"), "contentHash": ContentHash::of(text.as_bytes())}));
    env.wait_for_status("a/a/a").await;
    env.patch_spec(json!({"configSource": null, "contentHash": null})).await;
    env.wait_for_status("a/a/a failed to sync: needs a drained node: maxPods").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(env.host.journal(), ["started 110", "started 150"]);
    env.patch_spec(json!({"maxDisruption": "replace"})).await;
    env.wait_for_status("-/-/-").await;
    assert_eq!(env.host.journal(), ["started 110", "started 150", "started 110"]);
}
