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
