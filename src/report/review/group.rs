//! Texts about a group of pools with the same change, shared by all formats.

use crate::report::count;
use crate::report::document::Text;
use crate::review::{ConfigMapChange, Group, PoolReview};

/// Maximum number of names of pools in a title, and in a list of pools.
const MAX_NAMES: usize = 5;

/// The names of the pools: `a`, `a, b`, `p1, p2, p3, p4, … p12`.
pub(super) fn title<'n>(pools: impl IntoIterator<Item = &'n str>) -> String {
    let pools: Vec<&str> = pools.into_iter().collect();
    match pools.split_last() {
        Some((last, before)) if pools.len() > MAX_NAMES => {
            let first: Vec<&str> = before.iter().take(MAX_NAMES - 1).copied().collect();
            format!("{}, … {last}", first.join(", "))
        }
        _ => pools.join(", "),
    }
}

/// How many nodes of a pool may be unavailable at once, if it assigns nodes: `at most 1 unavailable at a time`.
pub(super) fn limit(group: &Group<'_>) -> Option<String> {
    let each = if group.is_several() { " in each pool" } else { "" };
    Some(format!("at most {} unavailable at a time{each}", budgets(group)?))
}

/// The budgets of the pools that assign nodes: `1`, `1 to 3`. `None` without such pools.
pub(super) fn budgets(group: &Group<'_>) -> Option<String> {
    let budgets = group.by(assigned_budget);
    let (first, last) = (budgets.keys().next()?, budgets.keys().next_back()?);
    Some(if first == last { first.to_string() } else { format!("{first} to {last}") })
}

fn assigned_budget(pool: &PoolReview) -> Option<usize> {
    pool.rollout.as_ref().filter(|rollout| rollout.assign > 0).map(|rollout| rollout.budget)
}

/// The pools by their limit of unavailable nodes and their canaries, one line each. Empty if they do not differ.
pub(super) fn limits(group: &Group<'_>) -> Vec<String> {
    let limits = group.by(|pool| {
        let limit = match &pool.rollout {
            Some(_) => assigned_budget(pool)?.to_string(),
            None => pool.scope.max_unavailable.clone(),
        };
        Some((limit, pool.scope.canary.clone()))
    });
    if limits.len() < 2 {
        return Vec::new();
    }
    let line = |((limit, canary), pools): ((String, Option<String>), Vec<&str>)| {
        let canary = canary.map_or_else(String::new, |canary| format!(", canary: {canary}"));
        format!("{}: at most {limit} unavailable at a time{canary}", title(pools))
    };
    limits.into_iter().map(line).collect()
}

fn is_renamed(map: &ConfigMapChange) -> bool {
    map.after.is_some() && map.after != map.before
}

/// The ConfigMaps of a group of several pools, in numbers. `None` without any.
pub(super) fn config_maps(group: &Group<'_>) -> Option<Text> {
    let number = |create| group.pools.iter().filter(|pool| pool.config_map.create == Some(create)).count();
    let (new, existing) = (number(true), number(false));
    let renamed = group.pools.iter().filter(|pool| pool.rollout.is_none() && is_renamed(&pool.config_map)).count();
    let parts = [(new, "to be created"), (existing, "exist"), (renamed, "with new names")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(number, "ConfigMap")))
        .collect();
    (group.is_several() && !parts.is_empty()).then(|| parts.join(", ").into())
}

/// All names of the pools of a large group. `None` if the title has them.
pub(super) fn all_names(group: &Group<'_>) -> Option<Text> {
    (group.pools.len() > MAX_NAMES).then(|| Text::from("pools: ").then(Text::joined(group.names().map(Text::name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::tests::{markdown, text};
    use crate::report::review::report;
    use crate::review::{Review, Side, groups, of_plan};
    use jiff::Timestamp;
    use nodecfg_fleet::{NodeOrder, Pool, RolloutPolicy};
    use nodecfg_observed::Node;
    use nodecfg_plan::fixtures::{ZONE, desired, in_zone, node, observed, options, pause, policy, pool, pool_name};
    use nodecfg_plan::make;

    fn review(pools: impl IntoIterator<Item = Pool>, nodes: impl IntoIterator<Item = Node>, paused: &[&str]) -> Review {
        let (desired, mut cluster) = (desired(pools), observed(nodes));
        let pause = pause("disks");
        cluster.orders.pauses.extend(paused.iter().map(|pool| (pool_name(pool), pause.clone())));
        let plan = make(&desired, &cluster, &options()).unwrap();
        of_plan(Side::WorkingTree, &desired, &plan, Timestamp::UNIX_EPOCH)
    }

    fn named(count: usize, of: impl Fn(&str) -> Pool) -> Vec<Pool> {
        (1..=count).map(|number| of(&format!("p{number}"))).collect()
    }

    fn nodes(pools: usize, each: usize) -> Vec<Node> {
        let name = |pool: usize, number: usize| node(&format!("p{pool}-{number}"), &format!("p{pool}"));
        (1..=pools).flat_map(|pool| (1..=each).map(move |number| name(pool, number))).collect()
    }

    fn ordered(label: &str) -> RolloutPolicy {
        let order = NodeOrder { by: label.to_owned(), soak: std::time::Duration::from_secs(600) };
        RolloutPolicy { order: Some(order), ..policy(1) }
    }

    #[test]
    fn domains_of_a_group_are_in_order_and_limited() {
        let pools = named(2, |name| pool(name, 64, ordered(ZONE)));
        let zoned = nodes(2, 14).into_iter().enumerate();
        let zoned = zoned.map(|(at, node)| in_zone(node, Some(&format!("z{:02}", at % 14))));
        let review = review(pools, zoned, &[]);
        let shown = text(&report("sync", &review), 100, false);
        assert!(shown.contains("then topology.kubernetes.io/zone=z00, as the budget allows: p1-1, p2-1\n"), "{shown}");
        assert!(shown.contains("then, after 10m soak, topology.kubernetes.io/zone=z11,"), "{shown}");
        assert!(shown.contains("then 2 more values\n") && !shown.contains("z12"), "{shown}");
        let shown = markdown(&report("sync", &review));
        assert!(shown.contains("- then 2 more values\n") && !shown.contains("z12"), "{shown}");
    }

    #[test]
    fn pools_with_orders_by_different_labels_are_no_group() {
        let pools = named(3, |name| pool(name, 64, ordered(if name == "p3" { "rack" } else { ZONE })));
        let review = review(pools, nodes(3, 1), &[]);
        assert_eq!(groups(&review.pools).len(), 2);
    }

    #[test]
    fn pools_with_the_same_change_are_one_block() {
        let pools = named(12, |name| pool(name, 64, policy(if name == "p12" { 2 } else { 1 })));
        let mut cluster = nodes(12, 10);
        cluster[13].deleting = true;
        let review = review(pools, cluster, &[]);
        let report = report("sync", &review);
        insta::assert_snapshot!("grouped-pools", text(&report, 100, false));
        insta::assert_snapshot!("grouped-pools-markdown", markdown(&report));
    }

    #[test]
    fn pools_that_differ_in_a_field_or_a_pause_are_separate() {
        let pools = named(5, |name| pool(name, if name == "p2" { 65 } else { 64 }, policy(1)));
        let review = review(pools, nodes(5, 1), &["p3"]);
        let found: Vec<String> = groups(&review.pools).iter().map(|group| title(group.names())).collect();
        assert_eq!(found, ["p1, p4, p5", "p2", "p3"]);
    }

    #[test]
    fn group_has_the_nodes_of_all_its_pools() {
        let review = review(named(3, |name| pool(name, 64, policy(1))), nodes(3, 4), &[]);
        let groups = groups(&review.pools);
        let [group] = groups.as_slice() else { panic!("one change") };
        let rollout = group.merged.rollout.as_ref().unwrap();
        assert_eq!((rollout.nodes, rollout.assign, rollout.waves.len(), rollout.waves[0].steps.len()), (12, 12, 1, 12));
        assert_eq!(group.merged.changes.iter().map(|set| set.nodes).collect::<Vec<_>>(), [Some(12)]);
        assert_eq!(limit(group).as_deref(), Some("at most 1 unavailable at a time in each pool"));
        let places: Vec<String> = group.merged.changes[0]
            .fields
            .iter()
            .filter_map(|field| Some(field.change.place.as_ref()?.file.to_string()))
            .collect();
        assert_eq!(places, ["pools/<pool>/kubelet.yaml"]);
    }

    #[test]
    fn shortens_a_long_title_in_the_middle() {
        let names: Vec<String> = (1..=12).map(|number| format!("p{number}")).collect();
        assert_eq!(title(names.iter().map(String::as_str)), "p1, p2, p3, p4, … p12");
        assert_eq!(title(names.iter().take(5).map(String::as_str)), "p1, p2, p3, p4, p5");
        assert_eq!(title(["a"]), "a");
    }
}
