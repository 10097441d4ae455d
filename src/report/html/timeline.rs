//! How a rollout went over time: a bar for each node where there are few, and where there are many how many were on their way, had
//! converged or failed.

use super::document::{MOST, more, time};
use super::markup::{Anchor, Attribute, Drawing, Markup, class};
use super::page::{Span, State, Timeline, Track};
use crate::report::{count, duration};

/// Up to how many nodes each has a bar of its own.
const BARS: usize = 60;
/// Into how many parts time is divided where they are counted.
const STEPS: u32 = 150;
/// How wide a drawing is, in its own units.
const WIDTH: u32 = 1200;
/// How high a drawing of numbers is.
const HEIGHT: u32 = 100;

/// Writes the section.
pub(super) fn write(main: &mut Markup, timeline: &Timeline) {
    let nodes: usize = timeline.tracks.iter().map(|track| track.spans.len()).sum();
    main.element("section", &[Attribute::Id(Anchor::Section("timeline"))], |section| {
        section.leaf("h2", &[], "Timeline");
        let began = format!("Began {}, watched for {}.", time(timeline.start), duration(timeline.seconds));
        section.leaf("p", &[class("quiet")], &began);
        for track in timeline.tracks.iter().take(MOST) {
            section.element("section", &[class("track")], |inner| {
                write_track(inner, timeline, track, nodes <= BARS);
            });
        }
        more(section, timeline.tracks.len(), "pools");
    });
    main.line();
}

fn write_track(section: &mut Markup, timeline: &Timeline, track: &Track, bars: bool) {
    section.leaf("h3", &[], track.pool.as_str());
    section.leaf("p", &[class("quiet")], &in_words(track));
    if bars {
        write_bars(section, timeline, track);
    } else if !track.spans.is_empty() {
        write_numbers(section, timeline, track);
    }
    if !track.marks.is_empty() {
        section.element("ul", &[class("plain marks")], |list| {
            for mark in &track.marks {
                list.element("li", &[], |line| {
                    line.leaf("span", &[class("time")], &format!("after {}", duration(mark.at)));
                    line.text(" ");
                    line.prose(&mark.text);
                });
            }
        });
    }
    section.line();
}

/// What the drawing shows, for those who do not see it, and for those who do.
fn in_words(track: &Track) -> String {
    let took = |end: State| {
        let mut took: Vec<f64> =
            track.spans.iter().filter(|span| span.end == end).map(|span| span.to - span.from).collect();
        took.sort_by(f64::total_cmp);
        took
    };
    let converged = took(State::CONVERGED);
    let mut parts = vec![format!("{} of {} began", track.spans.len(), count(track.total, "node"))];
    if let (Some(middle), Some(longest)) = (converged.get(converged.len() / 2), converged.last()) {
        parts.push(format!(
            "{} converged, half of them within {}, the slowest in {}",
            converged.len(),
            duration(*middle),
            duration(*longest)
        ));
    }
    for (end, what) in
        [(State::FAILED, "failed"), (State::RolledBack, "rolled back"), (State::InFlight, "still in flight")]
    {
        let number = took(end).len();
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    parts.join("; ")
}

/// A bar for each node.
fn write_bars(section: &mut Markup, timeline: &Timeline, track: &Track) {
    section.element("div", &[class("scroll")], |scroll| {
        scroll.element("table", &[class("spans"), Attribute::Label(track.pool.as_str())], |table| {
            table.element("tbody", &[], |body| {
                for span in &track.spans {
                    body.element("tr", &[], |row| write_bar(row, timeline, span));
                }
            });
        });
    });
}

fn write_bar(row: &mut Markup, timeline: &Timeline, span: &Span) {
    row.leaf("th", &[Attribute::Fixed("scope", "row")], span.node.as_str());
    row.element("td", &[class("lane")], |cell| {
        drawing(cell, 10, |svg| {
            let from = x(timeline, span.from).min(WIDTH - 6);
            let to = x(timeline, span.to).max(from + 6);
            let mut shape = Drawing::default();
            shape.begin(from, 1);
            shape.line(to, 1);
            shape.line(to, 9);
            shape.line(from, 9);
            shape.close();
            svg.element("path", &[class(span.end.class()), Attribute::Shape(&shape)], |_| {});
        });
    });
    row.leaf("td", &[class("number")], &format!("{} – {}", duration(span.from), duration(span.to)));
    row.leaf("td", &[], span.end.word());
}

/// How many were where at each moment, one upon the other: converged, failed, on their way. The height is that of all that
/// were to move.
fn write_numbers(section: &mut Markup, timeline: &Timeline, track: &Track) {
    section.element("figure", &[Attribute::Fixed("aria-hidden", "true")], |figure| {
        drawing(figure, HEIGHT, |svg| {
            let moments: Vec<[usize; 3]> = (0..=STEPS).map(|step| moment(timeline, track, step)).collect();
            let mut below: Vec<usize> = vec![0; moments.len()];
            for (layer, state) in [State::CONVERGED, State::FAILED, State::InFlight].into_iter().enumerate() {
                let height = |counts: &[usize; 3]| counts.get(layer).copied().unwrap_or(0);
                let above: Vec<usize> =
                    below.iter().zip(&moments).map(|(under, counts)| under + height(counts)).collect();
                if above != below {
                    let shape = area(&below, &above, track.total);
                    svg.element("path", &[class(state.class()), Attribute::Shape(&shape)], |_| {});
                }
                below = above;
            }
        });
        figure.element("figcaption", &[class("axis")], |caption| {
            caption.leaf("span", &[], "0s");
            caption.element("span", &[class("key")], |key| {
                for state in [State::CONVERGED, State::FAILED, State::InFlight] {
                    key.element("i", &[class(state.class())], |_| {});
                    key.text(&format!(" {} ", state.word()));
                }
                key.text(&format!("– of {}", count(track.total, "node")));
            });
            caption.leaf("span", &[], &duration(timeline.seconds));
        });
    });
}

/// How many nodes had converged, had failed, and were on their way at a moment.
fn moment(timeline: &Timeline, track: &Track, step: u32) -> [usize; 3] {
    let at = timeline.seconds * f64::from(step) / f64::from(STEPS);
    let mut counts = [0; 3];
    for span in track.spans.iter().take_while(|span| span.from <= at) {
        let layer = match span.end {
            State::InFlight => 2,
            _ if span.to > at => 2,
            State::FAILED => 1,
            State::CONVERGED => 0,
            // Gone, rolled back, or somebody else's: no longer of this rollout.
            _ => continue,
        };
        if let Some(count) = counts.get_mut(layer) {
            *count += 1;
        }
    }
    counts
}

fn area(below: &[usize], above: &[usize], total: usize) -> Drawing {
    let mut shape = Drawing::default();
    let place = |step: usize, number: usize| {
        let step = u32::try_from(step).unwrap_or(STEPS);
        let high = (number * HEIGHT as usize).checked_div(total).unwrap_or(0);
        (WIDTH * step / STEPS, HEIGHT.saturating_sub(u32::try_from(high).unwrap_or(HEIGHT)))
    };
    for (step, number) in above.iter().enumerate() {
        let (x, y) = place(step, *number);
        if step == 0 { shape.begin(x, y) } else { shape.line(x, y) }
    }
    for (step, number) in below.iter().enumerate().rev() {
        let (x, y) = place(step, *number);
        shape.line(x, y);
    }
    shape.close();
    shape
}

/// Where a moment is.
fn x(timeline: &Timeline, at: f64) -> u32 {
    if timeline.seconds <= 0.0 {
        return 0;
    }
    // Saturating: what is outside shows at the edge.
    (at / timeline.seconds * f64::from(WIDTH)).round().clamp(0.0, f64::from(WIDTH)) as u32
}

fn drawing(around: &mut Markup, height: u32, content: impl FnOnce(&mut Markup)) {
    let view = if height == HEIGHT { "0 0 1200 100" } else { "0 0 1200 10" };
    let attributes = [
        class(if height == HEIGHT { "numbers" } else { "lane" }),
        Attribute::Fixed("viewBox", view),
        Attribute::Fixed("preserveAspectRatio", "none"),
        Attribute::Fixed("aria-hidden", "true"),
    ];
    around.element("svg", &attributes, content);
}
