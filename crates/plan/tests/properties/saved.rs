//! Property tests of saved plans: reading restores them, changed and missing bytes are detected, and plans without
//! differences have equal assignments.

use proptest::prelude::*;

use super::plans::{clusters, plan};
use nodecfg_plan::Plan;
use nodecfg_plan::fixtures::{desired, node, observed, policy, pool};
use nodecfg_plan::saved::{ClusterIdentity, FreshPlan, SavedOptions, SavedPlan, read};

fn save(plan: &Plan) -> SavedPlan {
    let cluster = ClusterIdentity { uid: "uid".to_owned(), server: "https://here".to_owned() };
    let options = SavedOptions { take_over: false, allow_empty: true, lenient: false, namespace: None, binding: None };
    SavedPlan::of(plan, cluster, "node", options)
}

/// A plan with one pool and two nodes to assign.
fn example() -> SavedPlan {
    save(&plan(&desired([pool("a", 64, policy(1))]), &observed([node("n1", "a"), node("n2", "a")])))
}

proptest! {
    #[test]
    fn saved_plan_round_trips((desired, observed) in clusters()) {
        let plan = plan(&desired, &observed);
        let saved = save(&plan);
        let again = read(saved.text().as_bytes()).unwrap();
        prop_assert_eq!(&again, &saved);
        prop_assert_eq!(again.differences(&saved, FreshPlan { plan: &plan, observed: &observed }), vec![]);
    }

    #[test]
    fn plans_without_differences_have_equal_assignments(
        (desired, then) in clusters(),
        (other, now) in clusters(),
        same_repository in any::<bool>(),
    ) {
        // Nodes carry no placement, which a repository may name.
        let is_alike = then.versions.node_configs.is_some() == now.versions.node_configs.is_some();
        prop_assume!(is_alike || !same_repository);
        let after = if same_repository { &desired } else { &other };
        let (before, fresh) = (plan(&desired, &then), plan(after, &now));
        let (saved, current) = (save(&before), save(&fresh));
        let found = saved.differences(&current, FreshPlan { plan: &fresh, observed: &now });
        if found.is_empty() {
            prop_assert_eq!(&saved.plan.nodes, &current.plan.nodes);
            prop_assert_eq!(&saved.plan.config_maps, &current.plan.config_maps);
        }
        // A node that is assigned otherwise is explained by itself, or by its pool.
        let is_at = |path: &str, name: &str| {
            let rest = path.strip_prefix("/plan/").and_then(|path| path.split_once('/')).map(|(_, rest)| rest);
            rest.is_some_and(|rest| rest.split('/').next() == Some(name))
        };
        for (node, planned) in &current.plan.nodes {
            let is_explained = |path: &str| is_at(path, node.as_str()) || is_at(path, planned.pool.as_str());
            let is_equal = saved.plan.nodes.get(node) == Some(planned);
            prop_assert!(is_equal || found.iter().any(|difference| is_explained(&difference.path)), "{}: {:?}", node, found);
        }
    }

    #[test]
    fn detects_flipped_bytes(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let plan = example();
        let mut bytes = plan.text().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(read) = read(&bytes) {
            prop_assert_eq!(read, plan);
        }
    }

    #[test]
    fn detects_truncation(at in any::<prop::sample::Index>()) {
        let plan = example();
        let text = plan.text();
        let end = at.index(text.len() - 1);
        if let Ok(read) = read(&text.as_bytes()[..end]) {
            prop_assert_eq!(read, plan);
            prop_assert_eq!(end, text.len() - 1);
        }
    }
}
