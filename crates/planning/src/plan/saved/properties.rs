//! What holds of every saved plan: it is read back as it was, no edit of it goes unnoticed, and two plans without a difference are
//! the same.

use proptest::prelude::*;

use super::stories::example;
use super::*;
use crate::plan::properties::{plan, worlds};

fn circumstances() -> Circumstances {
    Circumstances {
        cluster: ClusterIdentity { uid: "uid".to_owned(), server: "https://here".to_owned() },
        binding: "node".to_owned(),
        options: SavedOptions { take_over: false, allow_empty: true, lenient: false, namespace: None },
    }
}

proptest! {
    #[test]
    fn what_is_saved_is_read_back_and_differs_in_nothing((desired, observed) in worlds()) {
        let plan = plan(&desired, &observed);
        let saved = SavedPlan::of(&plan, &circumstances());
        let again = read(saved.text().as_bytes()).unwrap();
        prop_assert_eq!(&again, &saved);
        prop_assert_eq!(again.differences(&saved, Now { plan: &plan, observed: &observed }), vec![]);
    }

    #[test]
    fn plans_without_a_difference_assign_the_same(
        (desired, then) in worlds(),
        (other, now) in worlds(),
        same_repository in any::<bool>(),
    ) {
        let after = if same_repository { &desired } else { &other };
        let (before, fresh) = (plan(&desired, &then), plan(after, &now));
        let (saved, essence) = (SavedPlan::of(&before, &circumstances()), SavedPlan::of(&fresh, &circumstances()));
        let found = saved.differences(&essence, Now { plan: &fresh, observed: &now });
        prop_assert!(found.is_sorted());
        let assigned = |saved: &SavedPlan| -> Vec<_> {
            saved.pools.iter().flat_map(|pool| pool.assignments.iter().map(|one| (pool.target.clone(), one.clone()))).collect()
        };
        if found.is_empty() {
            prop_assert_eq!(assigned(&saved), assigned(&essence));
            prop_assert_eq!(saved.config_maps, essence.config_maps);
        } else {
            prop_assert!(found.iter().all(|difference| difference.code != Code::Other), "{found:?}");
        }
    }

    #[test]
    fn no_flipped_byte_goes_unnoticed(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let plan = example();
        let mut bytes = plan.text().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(read) = read(&bytes) {
            prop_assert_eq!(read, plan);
        }
    }

    #[test]
    fn no_missing_end_goes_unnoticed(at in any::<prop::sample::Index>()) {
        let plan = example();
        let text = plan.text();
        let end = at.index(text.len() - 1);
        if let Ok(read) = read(&text.as_bytes()[..end]) {
            prop_assert_eq!(read, plan);
            prop_assert_eq!(end, text.len() - 1);
        }
    }
}
