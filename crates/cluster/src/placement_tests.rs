//! Assignments with a placement.

use super::*;

#[tokio::test]
async fn assigns_only_over_the_observed_placement() {
    let (api, reader) = cluster(&["n1"]).await;
    let (writer, _held) = writer(&reader).await;
    let uid = uid_of(&api, "n1");
    let [overlay, replace] = Placement::ALL.map(Some);
    let first = Assignment { to_placement: overlay, ..assign(&uid, None, Some("a")) };
    writer.assign(&name("n1"), &first).await.expect("assigned");
    let second =
        |from_placement| Assignment { from_placement, to_placement: replace, ..assign(&uid, Some("a"), Some("a")) };
    for stale in [None, replace] {
        let error = writer.assign(&name("n1"), &second(stale)).await.expect_err("changed");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    }
    writer.assign(&name("n1"), &second(overlay)).await.expect("assigned");
    assert_eq!(node_config(&api, "n1")["spec"]["placement"], "replace");
}

/// Without the hash, the agent would take any content. Without the placement, it would do what it did before.
#[tokio::test]
async fn detects_a_definition_that_drops_the_content_hash_or_the_placement() {
    for field in ["contentHash", "placement"] {
        let api = api(ServerProfile::V1_36, &["n1"]);
        let mut outdated = nodeconfig::definition();
        let properties = &mut outdated["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(properties["properties"].as_object_mut().expect("fields").remove(field).is_some());
        create(&api, "apiextensions.k8s.io", "customresourcedefinitions", outdated);
        let reader = reader(&api).with_binding(None).await.expect("bound");
        let (writer, _held) = writer(&reader).await;
        // Created, then patched.
        for from in [None, Some("a")] {
            let change = assign(&uid_of(&api, "n1"), from, Some("a"));
            let placement = Some(Placement::Overlay);
            let from_placement = placement.filter(|_| from.is_some() && field != "placement");
            let change = Assignment { from_placement, to_placement: placement, ..change };
            let tried = reader.try_assignment(&name("n1"), &change).await;
            assert!(matches!(tried, Err(ClusterError::DefinitionOutdated { .. })), "{field}: {tried:?}");
            let error = writer.assign(&name("n1"), &change).await;
            assert!(matches!(error, Err(ClusterError::DefinitionOutdated { .. })), "{field}: {error:?}");
        }
    }
}
