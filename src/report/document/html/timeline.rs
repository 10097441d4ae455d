//! The "Timeline" section: a bar per node for few nodes, otherwise an area chart of nodes in transition, converged and
//! failed.

use maud::{Markup, html};

use super::blocks::more;
use super::frame::time;
use super::nodes::class;
use super::text::Prose;
use crate::report::timeline::{Timeline, Track, summary};
use crate::report::{count, duration};
use nodecfg_plan::state::State;

/// Maximum number of pools.
const MAX_TRACKS: usize = 50;
/// Maximum number of nodes in all pools for which each node has a bar.
const MAX_BARS: usize = 60;
/// The number of time steps of an area chart.
const STEPS: u32 = 150;
/// The width of a drawing in SVG units.
const WIDTH: u32 = 1200;
/// The height of an area chart in SVG units.
const HEIGHT: u32 = 100;

/// The section.
pub(super) fn section(timeline: &Timeline) -> Markup {
    let nodes: usize = timeline.tracks.iter().map(|track| track.spans.len()).sum();
    html! {
        section #timeline {
            h2 { "Timeline" }
            p.quiet { "Started " (time(timeline.start)) ", watched for " (duration(timeline.seconds)) "." }
            @for track in timeline.tracks.iter().take(MAX_TRACKS) {
                section.track {
                    h3 { (track.pool.as_str()) }
                    p.quiet { (summary(track)) }
                    @if nodes <= MAX_BARS { (bars(timeline, track)) } @else if !track.spans.is_empty() { (area_chart(timeline, track)) }
                    @if !track.marks.is_empty() {
                        ul.plain.marks {
                            @for mark in &track.marks {
                                li { span.time { "after " (duration(mark.at)) } " " (Prose(&mark.text)) }
                            }
                        }
                    }
                    "\n"
                }
            }
            (more(timeline.tracks.len(), "pools"))
        }
        "\n"
    }
}

/// A bar per node.
fn bars(timeline: &Timeline, track: &Track) -> Markup {
    html! {
        div.scroll {
            table.spans aria-label=(track.pool.as_str()) {
                tbody {
                    @for span in &track.spans {
                        @let from = x(timeline, span.from).min(WIDTH - 6);
                        @let to = x(timeline, span.to).max(from + 6);
                        tr {
                            th scope="row" { (span.node.as_str()) }
                            td.lane {
                                svg.lane viewBox="0 0 1200 10" preserveAspectRatio="none" aria-hidden="true" {
                                    path class=(class(span.end)) d={ "M" (from) " 1L" (to) " 1L" (to) " 9L" (from) " 9Z" } {}
                                }
                            }
                            td.number { (duration(span.from)) " – " (duration(span.to)) }
                            td { (span.end.word()) }
                        }
                    }
                }
            }
        }
    }
}

/// An area chart: at each time step, the stacked numbers of nodes converged, failed and in transition. The full height
/// is the number of nodes to change.
fn area_chart(timeline: &Timeline, track: &Track) -> Markup {
    let layers = [State::Converged, State::Failed, State::InFlight];
    let moments: Vec<[usize; 3]> = (0..=STEPS).map(|step| counts_at(timeline, track, step)).collect();
    let mut below: Vec<usize> = vec![0; moments.len()];
    html! {
        figure aria-hidden="true" {
            svg.numbers viewBox="0 0 1200 100" preserveAspectRatio="none" aria-hidden="true" {
                @for (layer, state) in layers.into_iter().enumerate() {
                    @let height = |counts: &[usize; 3]| counts.get(layer).copied().unwrap_or(0);
                    @let above: Vec<usize> = below.iter().zip(&moments).map(|(under, counts)| under + height(counts)).collect();
                    @if above != below {
                        path class=(class(state)) d=(area(&below, &above, track.total)) {}
                    }
                    @let () = below = above;
                }
            }
            figcaption.axis {
                span { "0s" }
                span.key {
                    @for state in layers { i class=(class(state)) {} " " (state.word()) " " }
                    "– of " (count(track.total, "node"))
                }
                span { (duration(timeline.seconds)) }
            }
        }
    }
}

/// The numbers of nodes converged, failed and in transition at a time step.
fn counts_at(timeline: &Timeline, track: &Track, step: u32) -> [usize; 3] {
    let at = timeline.seconds * f64::from(step) / f64::from(STEPS);
    let mut counts = [0; 3];
    for span in track.spans.iter().take_while(|span| span.from <= at) {
        let layer = match span.end {
            State::InFlight => 2,
            _ if span.to > at => 2,
            State::Failed => 1,
            State::Converged => 0,
            // Deleted, rolled back or changed by another client: no longer part of this rollout.
            _ => continue,
        };
        if let Some(count) = counts.get_mut(layer) {
            *count += 1;
        }
    }
    counts
}

/// The area between two lines as an SVG path.
fn area(below: &[usize], above: &[usize], total: usize) -> String {
    let place = |(step, number): (usize, &usize)| {
        let step = u32::try_from(step).unwrap_or(STEPS);
        let high = (number * HEIGHT as usize).checked_div(total).unwrap_or(0);
        let y = HEIGHT.saturating_sub(u32::try_from(high).unwrap_or(HEIGHT));
        format!("{} {y}", WIDTH * step / STEPS)
    };
    let upper = above.iter().enumerate().map(place);
    let lower = below.iter().enumerate().rev().map(place);
    format!("M{}Z", upper.chain(lower).collect::<Vec<_>>().join("L"))
}

/// The x coordinate of a time.
fn x(timeline: &Timeline, at: f64) -> u32 {
    if timeline.seconds <= 0.0 {
        return 0;
    }
    // Saturating: values outside appear at the edge.
    (at / timeline.seconds * f64::from(WIDTH)).round().clamp(0.0, f64::from(WIDTH)) as u32
}
