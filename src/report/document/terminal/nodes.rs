//! Nodes as text: a table of pools and a table of nodes, in which nodes alike share a row.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::{Cell, FEW_NODES, NodeEntry, NodePool, Nodes, Table, state_counts};
use super::{Layout, MAX_ROWS, text_cell};
use crate::layout::shorten_middle;
use crate::report::count;
use crate::report::table::{MAX_ALIKE, TextCell, TextColumn, TextTable};
use crate::status::{Grade, State};
use nodecfg_contract::names::PoolName;
use nodecfg_observed::Age;

/// The maximum width of the name of a configuration in a narrow table, in columns.
const MAX_NAME_WIDTH: usize = 22;

/// The nodes with all columns and full names, worst first.
pub(super) fn wide(nodes: &Nodes) -> TextTable {
    let mut all: Vec<_> = nodes.all().collect();
    all.sort_by_key(|(_, node)| node.state);
    let rows: Vec<Row<'_>> = all.into_iter().map(Row::of).collect();
    NodeTable { nodes, rows: &rows, with_empty: true }.all_columns(&|_, name| name)
}

impl Layout {
    pub(super) fn nodes(self, nodes: &Nodes) -> String {
        let pools =
            if nodes.pools.len() > 1 || !nodes.pool_columns.is_empty() { self.pools(nodes) } else { String::new() };
        let (mut listed, rest) = nodes.listed();
        let mut rows: Vec<Row<'_>> = listed.drain(..).map(Row::of).collect();
        let mut omitted: Vec<Row<'_>> = rest.into_iter().map(Row::of).collect();
        if self.all {
            rows.append(&mut omitted);
            rows.sort_by_key(|row| row.node.state);
        } else if rows.iter().chain(&omitted).count() > FEW_NODES {
            rows = folded(rows);
            omitted.splice(..0, rows.split_off(rows.len().min(MAX_ROWS)));
        }
        let mut text = String::new();
        if !rows.is_empty() {
            let table = NodeTable { nodes, rows: &rows, with_empty: false }.fitting(self.width);
            for (lines, row) in table.rows(self.width).iter().zip(std::iter::once(None).chain(rows.iter().map(Some))) {
                text.extend(lines.iter().map(|line| format!("{line}\n")));
                let message =
                    row.map(|row| row.node.message.as_str()).filter(|message| self.all && !message.is_empty());
                text.extend(message.map(|message| self.quiet(message, 4)));
            }
        }
        let omitted: Vec<&NodeEntry> = omitted.iter().flat_map(|row| row.alike.iter().copied()).collect();
        if !omitted.is_empty() {
            let (and, more) = if rows.is_empty() { ("", "") } else { ("and ", " more") };
            let number = omitted.len();
            let nodes = if number == 1 { "node" } else { "nodes" };
            let states = state_counts(omitted);
            let line = format!("{and}{number}{more} {nodes}: {states}; {} lists them", self.all_option);
            text.push_str(&self.quiet(&line, 0));
        }
        [pools, text].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn pools(self, nodes: &Nodes) -> String {
        let several_fleets = nodes.are_of_several_fleets();
        let first = ["pool"].into_iter().chain(several_fleets.then_some("fleet")).chain(["nodes"]);
        let rows = match self.all {
            true => nodes.pools.iter().map(|pool| vec![pool]).collect(),
            false => folded_pools(&nodes.pools),
        };
        let shown = rows.len().min(self.most());
        let table = Table {
            columns: first.chain(nodes.pool_columns.iter().copied()).chain(["states"]).collect(),
            rows: rows.iter().take(shown).map(|pools| pool_row(pools, several_fleets)).collect(),
            ..Table::default()
        };
        let mut text = self.table(&table, 0);
        let rest: Vec<&NodePool> = rows.into_iter().skip(shown).flatten().collect();
        if !rest.is_empty() {
            let states = state_counts(rest.iter().flat_map(|pool| &pool.nodes));
            let line = format!("and {}: {states}; {} lists them", count(rest.len(), "more pool"), self.all_option);
            text.push_str(&self.quiet(&line, 0));
        }
        text
    }
}

/// A pool or several pools alike as a row.
fn pool_row(pools: &[&NodePool], with_fleet: bool) -> Vec<Cell> {
    let Some(first) = pools.first() else { return Vec::new() };
    let name = if pools.len() > 1 { Cell::Words(count(pools.len(), "pool")) } else { Cell::name(first.name.as_ref()) };
    let fleet = with_fleet.then(|| Cell::name(first.fleet.as_ref()));
    let nodes = || pools.iter().flat_map(|pool| &pool.nodes);
    let states = match nodes().map(|node| node.state).min() {
        Some(worst) => Cell::Graded(worst.grade(), state_counts(nodes())),
        None => Cell::Graded(Grade::Neutral, "no nodes".to_owned()),
    };
    let before = [Some(name), fleet, Some(Cell::Number(nodes().count()))];
    before.into_iter().flatten().chain(first.cells.iter().cloned()).chain([states]).collect()
}

/// The pools in their order. Those with all nodes in the same state are one row, if there are more than a few.
fn folded_pools(pools: &[NodePool]) -> Vec<Vec<&NodePool>> {
    let mut groups: Vec<(Option<State>, Vec<&NodePool>)> = Vec::new();
    for pool in pools {
        let states: BTreeSet<State> = pool.nodes.iter().map(|node| node.state).collect();
        let state = states.first().copied().filter(|_| states.len() == 1);
        let is_alike = |(other, group): &&mut (Option<State>, Vec<&NodePool>)| {
            let has_values = |first: &&NodePool| first.fleet == pool.fleet && first.cells == pool.cells;
            state.is_some() && *other == state && group.first().is_some_and(has_values)
        };
        match groups.iter_mut().find(is_alike) {
            Some((_, group)) => group.push(pool),
            None => groups.push((state, vec![pool])),
        }
    }
    let mut rows = Vec::new();
    for (_, group) in groups {
        if group.len() > MAX_ALIKE {
            rows.push(group);
        } else {
            rows.extend(group.into_iter().map(|pool| vec![pool]));
        }
    }
    rows
}

/// One row: a node, or several nodes alike.
struct Row<'a> {
    pool: &'a NodePool,
    /// The node, or the first one.
    node: &'a NodeEntry,
    alike: Vec<&'a NodeEntry>,
}

impl<'a> Row<'a> {
    fn of((pool, node): (&'a NodePool, &'a NodeEntry)) -> Self {
        Self { pool, node, alike: vec![node] }
    }

    /// What is equal in nodes alike.
    fn key(&self) -> (Option<&'a PoolName>, &'a str, &'a str, Vec<String>) {
        let cells = self.node.cells.iter().filter(|cell| !matches!(cell, Cell::Since(_) | Cell::Seconds(_)));
        let cells = cells.map(|cell| format!("{cell:?}")).collect();
        (self.pool.name.as_ref(), &self.node.words, &self.node.message, cells)
    }

    /// The value of a column. For nodes alike: since when the first one has been in its state.
    fn cell(&self, index: usize) -> Cell {
        let cells = || self.alike.iter().filter_map(|node| node.cells.get(index));
        let earliest = cells().filter_map(|cell| if let Cell::Since(since) = cell { Some(*since) } else { None }).min();
        match (earliest, cells().next()) {
            (Some(since), _) => Cell::Since(since),
            (None, Some(Cell::Seconds(_))) if self.alike.len() > 1 => Cell::Empty,
            (None, cell) => cell.cloned().unwrap_or(Cell::Empty),
        }
    }
}

/// The rows in their order. Nodes alike are one row, if there are more than a few.
fn folded<'a>(rows: Vec<Row<'a>>) -> Vec<Row<'a>> {
    let mut groups: Vec<Row<'a>> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rows {
        let place = *places.entry(row.key()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.alike.extend(row.alike),
            None => groups.push(row),
        }
    }
    let each = |group: Row<'a>| -> Vec<Row<'a>> {
        if group.alike.len() > MAX_ALIKE {
            return vec![group];
        }
        group.alike.into_iter().map(|node| Row::of((group.pool, node))).collect()
    };
    groups.into_iter().flat_map(each).collect()
}

/// The table of nodes, from which narrow terminals omit columns.
struct NodeTable<'a> {
    nodes: &'a Nodes,
    rows: &'a [Row<'a>],
    /// Whether columns without any value are drawn, unless they are optional.
    with_empty: bool,
}

/// How the name of a configuration is shown in the row of a node.
type ShownName<'a> = &'a dyn Fn(&NodePool, String) -> String;

impl NodeTable<'_> {
    /// The table with the most columns that fit without shortened hashes. If none fits, one that shrinks.
    fn fitting(&self, width: usize) -> TextTable {
        let fits = |table: &TextTable| table.natural_width() <= width;
        let names = Some(self.all_columns(&|_, name| name)).filter(fits);
        if let Some(table) = names.or_else(|| Some(self.all_columns(&hash)).filter(fits)) {
            return table;
        }
        let last = self.nodes.columns.iter().map(|column| column.omitted).max().unwrap_or(0);
        let short = |pool: &NodePool, name| shorten_middle(&hash(pool, name), MAX_NAME_WIDTH);
        let without = |number: u8| self.columns(without_domain, &short, |omitted| omitted == 0 || omitted > number);
        (0..last)
            .map(without)
            .find(fits)
            .or_else(|| Some(without(last.saturating_sub(1))).filter(|table| table.can_fit(width)))
            .unwrap_or_else(|| without(last))
    }

    /// The table with all columns.
    fn all_columns(&self, shown: ShownName<'_>) -> TextTable {
        self.columns(|names| names, shown, |_| true)
    }

    fn columns(
        &self,
        change: fn(Vec<String>) -> Vec<String>,
        shown: ShownName<'_>,
        is_kept: impl Fn(u8) -> bool,
    ) -> TextTable {
        let each = |cell: &dyn Fn(&Row<'_>) -> TextCell| self.rows.iter().map(cell).collect::<Vec<_>>();
        let mut columns = vec![
            // Administrators need the name of a node to inspect it.
            TextColumn::new("NODE", self.names(change)).cut_last(),
            TextColumn::new(
                "POOL",
                each(&|row| {
                    text_cell(&Cell::name(row.pool.name.as_ref()), row.pool.name.as_ref().map_or("", PoolName::as_str))
                }),
            )
            .cut(),
            TextColumn::new("STATE", each(&|row| TextCell::graded(&row.node.words, row.node.state.grade()))),
        ];
        let kept = self.nodes.columns.iter().enumerate().filter(|(_, column)| is_kept(column.omitted));
        for (index, column) in kept {
            let cells = || self.rows.iter().map(|row| (row.pool, row.cell(index)));
            let is_dropped = column.optional || !self.with_empty;
            if is_dropped && cells().all(|(_, cell)| cell == Cell::Empty) {
                continue;
            }
            let is_source = cells().any(|(_, cell)| matches!(cell, Cell::Source(_)));
            let texts = cells().map(|(pool, cell)| {
                let text = match &cell {
                    Cell::Source(_) => shown(pool, cell.text()),
                    Cell::Since(since) => age(*since, self.nodes.at),
                    cell => cell.text(),
                };
                text_cell(&cell, &text)
            });
            let made = TextColumn::new(&column.title.to_uppercase(), texts.collect::<Vec<_>>());
            columns.push(if is_source { made.cut() } else { made });
        }
        TextTable::new(columns)
    }

    /// The names of nodes, changed together, and the numbers of nodes alike.
    fn names(&self, change: fn(Vec<String>) -> Vec<String>) -> Vec<TextCell> {
        let single = self.rows.iter().filter(|row| row.alike.len() == 1);
        let mut names = change(single.map(|row| row.node.name.to_string()).collect()).into_iter();
        let name = |row: &Row<'_>| match row.alike.len() {
            1 => names.next().unwrap_or_default().into(),
            nodes => count(nodes, "node").into(),
        };
        self.rows.iter().map(name).collect()
    }
}

/// Replaces a common domain of all names with `…`.
fn without_domain(names: Vec<String>) -> Vec<String> {
    let domain = |name: &str| name.split_once('.').map(|(_, domain)| domain.to_owned());
    let Some(common) = names.first().and_then(|name| domain(name)) else { return names };
    if names.len() < 2 || !names.iter().all(|name| domain(name).as_ref() == Some(&common)) {
        return names;
    }
    names.iter().map(|name| format!("{}.…", name.split('.').next().unwrap_or(name))).collect()
}

/// The hash of a ConfigMap name that otherwise holds only the node's fleet and pool.
fn hash(pool: &NodePool, name: String) -> String {
    let (Some(fleet), Some(pool)) = (&pool.fleet, &pool.name) else { return name };
    match name.strip_prefix(&format!("{fleet}-{pool}-")) {
        Some(hash) if !hash.contains('-') => hash.to_owned(),
        _ => name,
    }
}

/// The age: `40s`, `12m`, `5h`, `3d`. `-` if in the future.
fn age(since: Timestamp, at: Timestamp) -> String {
    if since > at { "-".to_owned() } else { Age::between(since, at).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_ages() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let ago = |seconds| age(at - jiff::SignedDuration::from_secs(seconds), at);
        assert_eq!([0, 59, 60, 7200, 200_000, -5].map(ago), ["0s", "59s", "1m", "2h", "2d", "-"]);
    }

    #[test]
    fn omits_common_domain() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        assert_eq!(without_domain(names(["a.x.y", "b.x.y"])), names(["a.…", "b.…"]));
        assert_eq!(without_domain(names(["a.x.y", "b.x.z"])), names(["a.x.y", "b.x.z"]));
        assert_eq!(without_domain(names(["a", "b"])), names(["a", "b"]));
    }
}
