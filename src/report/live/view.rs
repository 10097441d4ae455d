//! Layout of the live display for a terminal of a given size.

use jiff::Timestamp;

use super::LiveProgress;
use super::estimate::{rounded, seconds};
use super::pool::{InFlightNode, Pool};
use crate::layout;
use crate::layout::{pad, shorten, shorten_middle, within};
use crate::report::progress::{count_labels, seconds_until};
use crate::report::style::{bad, good, heading, quiet, warning};
use crate::report::{count, duration, trial, whole_duration};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_plan::convergence::Trial;
use nodecfg_plan::state::State;
use nodecfg_rollout::progress::NodeCounts;

/// Terminals below this width show numbers without bars.
const NARROW: usize = 50;
/// The maximum lines of the last failure's message.
const MAX_MESSAGE_LINES: usize = 3;
/// The minimum and maximum width of a bar, in columns.
const BAR: (usize, usize) = (10, 40);

impl LiveProgress {
    /// The lines for a terminal of this size, with ANSI styles. Uses at most two thirds of the height, so that the
    /// log above stays visible.
    #[must_use]
    pub fn view(&self, width: usize, height: usize, now: Timestamp) -> Vec<String> {
        let room = (height * 2 / 3).max(1);
        // The last column stays empty: some terminals wrap when it is filled.
        let columns = width.saturating_sub(1).max(1);
        let mut lines = self.bars(columns, (room / 2).max(1), now);
        if lines.len() < room {
            lines.push(self.times(now));
        }
        if let Some(left) = room.checked_sub(lines.len() + 1).filter(|left| *left > 0) {
            lines.extend(self.failure(columns, (left / 2).clamp(1, MAX_MESSAGE_LINES), now));
        }
        lines.extend(self.transitions(columns, room.saturating_sub(lines.len()), now));
        lines.into_iter().map(|line| shorten(&line, columns)).collect()
    }

    /// The final display after the end: the bars alone.
    #[must_use]
    pub fn rest(&self, width: usize, height: usize, now: Timestamp) -> Vec<String> {
        let columns = width.saturating_sub(1).max(1);
        self.bars(columns, (height / 2).max(1), now).into_iter().map(|line| shorten(&line, columns)).collect()
    }

    /// A bar per pool. If there are too many, the pools of highest priority and one bar for the rest.
    fn bars(&self, columns: usize, most: usize, now: Timestamp) -> Vec<String> {
        let mut rows: Vec<Row> = self.pools.iter().map(|pool| Row::of(pool, now)).collect();
        if rows.len() > most {
            let mut ranked: Vec<&Pool> = self.pools.iter().collect();
            ranked.sort_by_key(|pool| pool.rank());
            let (shown, summed) = ranked.split_at_checked(most.saturating_sub(1)).unwrap_or((&ranked, &[]));
            rows = shown.iter().map(|pool| Row::of(pool, now)).collect();
            rows.push(Row::of_many(summed, !shown.is_empty(), now));
        }
        let sizes = Sizes::of(&rows, columns);
        rows.into_iter().map(|row| row.line(sizes)).collect()
    }

    fn times(&self, now: Timestamp) -> String {
        let line = format!("{} elapsed", whole_duration(seconds(self.start, now) as u64));
        let Some((remaining, longer)) = self.remaining(now) else { return line };
        let longer = if longer { ", longer if nodes hang" } else { "" };
        format!("{line}, about {} left{longer}", whole_duration(rounded(remaining)))
    }

    /// The last failure with its message, in at most `most` lines.
    fn failure(&self, columns: usize, most: usize, now: Timestamp) -> Vec<String> {
        let Some(last) = &self.last_failure else { return Vec::new() };
        let ago = whole_duration(seconds(last.at, now) as u64);
        let (head, ago) = (bad("last failure"), quiet(format!(", {ago} ago")));
        let room = columns.saturating_sub(layout::width(&head) + 2 + layout::width(&ago));
        let name = shorten_middle(&format!("{}/{}", last.pool, last.node), room);
        let mut lines = vec![format!("{head}: {name}{ago}")];
        let lines_of_message = first_lines(&last.message, columns.saturating_sub(2), most);
        lines.extend(lines_of_message.into_iter().map(|line| format!("  {line}")));
        lines
    }

    /// The nodes in transition, oldest first, in at most `most` lines.
    fn transitions(&self, columns: usize, most: usize, now: Timestamp) -> Vec<String> {
        let mut nodes: Vec<(&PoolName, &NodeName, &InFlightNode)> = self
            .pools
            .iter()
            .flat_map(|pool| pool.in_flight.iter().map(|(node, flight)| (&pool.name, node, flight)))
            .collect();
        let total = nodes.len();
        let shown = if total > most { most.saturating_sub(1) } else { total };
        let order = |(pool, node, flight): &(&PoolName, &NodeName, &InFlightNode)| {
            (flight.since, (*pool).clone(), (*node).clone())
        };
        if shown > 0 && shown < total {
            nodes.select_nth_unstable_by_key(shown, order);
        }
        nodes.truncate(shown);
        nodes.sort_by_key(order);
        let mut lines: Vec<String> =
            nodes.into_iter().map(|(pool, node, flight)| transition(pool, node, flight, columns, now)).collect();
        match total - shown {
            more if more > 0 && most > 0 && shown > 0 => {
                lines.push(quiet(format!("{:>6} and {more} more", "")));
            }
            more if more > 0 && most > 0 => {
                lines.push(quiet(format!("{} in transition", count(more, "node"))));
            }
            _ => {}
        }
        lines
    }
}

fn transition(pool: &PoolName, node: &NodeName, flight: &InFlightNode, columns: usize, now: Timestamp) -> String {
    let since = quiet(format!("{:>6}", duration(seconds(flight.since, now))));
    let reason = flight.waiting.as_ref().map_or_else(|| "watched".to_owned(), ToString::to_string);
    let reason = one_line(&reason);
    // The waiting reason is more useful than the pool name, and than the middle of the node name.
    let taken = layout::width(&since) + 2 + layout::width(&reason);
    let room = columns.saturating_sub(taken).max(columns / 2);
    let name = Some(format!("{pool}/{node}")).filter(|name| columns >= NARROW && layout::width(name) <= room);
    let name = name.unwrap_or_else(|| shorten_middle(node.as_str(), room));
    format!("{since} {name} {}", quiet(reason))
}

/// Wraps a text into at most `most` lines. A cut text ends with an ellipsis.
fn first_lines(text: &str, columns: usize, most: usize) -> Vec<String> {
    let text = one_line(text);
    let all = textwrap::wrap(&text, within(columns.max(1)).break_words(true));
    let (whole, rest) = all.split_at(all.len().min(most.saturating_sub(1)));
    let last = shorten(&rest.join(" "), columns);
    whole.iter().map(ToString::to_string).chain([last]).filter(|line| !line.is_empty()).take(most).collect()
}

/// A bar with its labels.
struct Row {
    name: String,
    counts: NodeCounts,
    labels: Vec<String>,
}

/// Common widths of all bars.
#[derive(Clone, Copy)]
struct Sizes {
    name: usize,
    bar: usize,
    digits: usize,
}

impl Sizes {
    fn of(rows: &[Row], columns: usize) -> Self {
        let longest = rows.iter().map(|row| layout::width(&row.name)).max().unwrap_or(0);
        let digits = rows.iter().map(|row| row.counts.total().to_string().len()).max().unwrap_or(0);
        let bar = if columns < NARROW { 0 } else { (columns / 4).clamp(BAR.0, BAR.1) };
        Self { name: longest.min((columns / 4).max(8)), bar, digits }
    }
}

impl Row {
    fn of(pool: &Pool, now: Timestamp) -> Self {
        let mut labels = count_labels(&pool.counts);
        if let Some(until) = pool.gate.soaks_until() {
            labels.push(warning(format!("soaking, {} left", whole_duration(seconds_until(now, until)))));
        }
        if let Some(done) = pool.done {
            labels.push(good(format!("done in {}", duration(seconds(pool.start, done)))));
        }
        if pool.counts.on_trial > 0 {
            let on_trial = trial(&Trial { ends_at: pool.trials_end }, now);
            labels.push(format!("{} {on_trial}", pool.counts.on_trial));
        }
        if let Some(reason) = &pool.stopped {
            labels.push(warning(format!("stopped: {}", one_line(reason))));
        } else if let Some(reason) = &pool.held {
            labels.push(warning(format!("held: {reason}")));
        } else if let Some((gate, why)) = pool.closed_gates.first_key_value().filter(|_| pool.done.is_none()) {
            labels.push(warning(format!("waiting for gate {gate}: {why}")));
        }
        Self { name: pool.name.to_string(), counts: pool.counts, labels }
    }

    /// Combines several pools into one row.
    fn of_many(pools: &[&Pool], beside_others: bool, now: Timestamp) -> Self {
        let mut counts = NodeCounts::default();
        pools.iter().for_each(|pool| counts.add(&pool.counts));
        let mut labels = count_labels(&counts);
        let soaks = pools.iter().filter_map(|pool| pool.gate.soaks_until());
        let soaks: Vec<Timestamp> = soaks.collect();
        if let Some(first) = soaks.iter().min() {
            let left = whole_duration(seconds_until(now, *first));
            labels.push(warning(format!("{} soaking, the first for {left} more", soaks.len())));
        }
        match pools.iter().filter(|pool| pool.stopped.is_some()).count() {
            0 => {}
            stopped => labels.push(warning(format!("{} stopped", count(stopped, "pool")))),
        }
        match pools.iter().filter(|pool| pool.held.is_some() && pool.stopped.is_none()).count() {
            0 => {}
            held => labels.push(warning(format!("{} held", count(held, "pool")))),
        }
        let is_delayed = |pool: &&&Pool| !pool.closed_gates.is_empty() && pool.stopped.is_none() && pool.done.is_none();
        match pools.iter().filter(is_delayed).count() {
            0 => {}
            delayed => labels.push(warning(format!("{} waiting for gates", count(delayed, "pool")))),
        }
        match pools.iter().filter(|pool| pool.done.is_some()).count() {
            0 => {}
            done => labels.push(good(format!("{} done", count(done, "pool")))),
        }
        if counts.on_trial > 0 {
            labels.push(format!("{} {}", counts.on_trial, State::OnTrial));
        }
        let name = if beside_others { format!("{} others", pools.len()) } else { count(pools.len(), "pool") };
        Self { name, counts, labels }
    }

    fn line(self, sizes: Sizes) -> String {
        let Sizes { name, bar, digits } = sizes;
        let label = heading(pad(&shorten_middle(&self.name, name), name, false));
        let bar = if bar > 0 { self.bar(bar) } else { String::new() };
        let (done, total) = (self.counts.done + self.counts.left, self.counts.total());
        let line = format!("{label} {bar}{done:>digits$}/{total:<digits$}");
        if self.labels.is_empty() { line } else { format!("{line}  {}", self.labels.join(", ")) }
    }

    /// The bar: the shares of done, active and failed nodes.
    fn bar(&self, columns: usize) -> String {
        let total = self.counts.total();
        let share = |nodes: usize| match nodes {
            0 => 0,
            // At least one column, so that small numbers stay visible.
            nodes => (nodes * columns / total.max(1)).max(1),
        };
        let failed = share(self.counts.failed);
        let finished = self.counts.done + self.counts.left;
        let done = if finished == total { columns } else { share(finished).min(columns - 1) }
            .min(columns.saturating_sub(failed));
        let left = columns.saturating_sub(failed + done);
        // Shares are rounded down; the last one fills the rest.
        let in_flight = match self.counts {
            NodeCounts { pending: 0, in_flight: 1.., .. } => left,
            counts => share(counts.in_flight).min(left),
        };
        let pending = columns.saturating_sub(done + in_flight + failed);
        let (done, in_flight) = (good("=".repeat(done)), warning(">".repeat(in_flight)));
        format!("[{done}{in_flight}{}{}] ", bad("x".repeat(failed)), " ".repeat(pending))
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
