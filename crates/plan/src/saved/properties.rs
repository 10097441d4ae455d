//! Property tests of saved plans: reading restores them, changed and missing bytes are detected, and plans without
//! differences have equal assignments.

use proptest::prelude::*;

use super::scenarios::example;
use super::*;
use crate::properties::{clusters, plan};

fn context() -> PlanContext {
    PlanContext {
        cluster: ClusterIdentity { uid: "uid".to_owned(), server: "https://here".to_owned() },
        binding: "node".to_owned(),
        options: SavedOptions { take_over: false, allow_empty: true, lenient: false, namespace: None, binding: None },
    }
}

proptest! {
    #[test]
    fn saved_plan_round_trips((desired, observed) in clusters()) {
        let plan = plan(&desired, &observed);
        let saved = SavedPlan::of(&plan, &context());
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
        let (saved, current) = (SavedPlan::of(&before, &context()), SavedPlan::of(&fresh, &context()));
        let found = saved.differences(&current, FreshPlan { plan: &fresh, observed: &now });
        prop_assert!(found.is_sorted());
        let assigned = |saved: &SavedPlan| -> Vec<_> {
            saved.pools.iter().flat_map(|pool| pool.assignments.iter().map(|one| (pool.target.clone(), one.clone()))).collect()
        };
        if found.is_empty() {
            prop_assert_eq!(assigned(&saved), assigned(&current));
            prop_assert_eq!(saved.config_maps, current.config_maps);
        } else {
            prop_assert!(found.iter().all(|difference| difference.code != Code::Other), "{found:?}");
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
