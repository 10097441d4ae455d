//! Tests of the redraw rate of the live view.

use jiff::ToSpan as _;

use super::*;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(milliseconds.milliseconds()).unwrap()
}

fn live(drawn_at: i64, changed: bool) -> LiveView {
    let desired = nodecfg_plan::fixtures::desired([]);
    let options = nodecfg_plan::Options { allow_empty: true, ..nodecfg_plan::fixtures::options() };
    let plan = nodecfg_plan::make(&desired, &nodecfg_plan::fixtures::observed([]), &options).unwrap();
    let mut live = LiveView::new(&plan, &Mode::ASSIGN, at(0), StatusArea::of_standard_error(), false);
    live.drawn = Some((at(drawn_at), (80, 24)));
    live.changed = changed;
    live
}

#[test]
fn draws_at_most_ten_times_per_second() {
    let size = (80, 24);
    assert!(!live(1000, true).is_due(at(1099), size));
    assert!(live(1000, true).is_due(at(1100), size));
    assert!(!live(1000, false).is_due(at(1100), size), "no event");
    assert!(live(1000, false).is_due(at(1100), (79, 24)), "the terminal was resized");
    assert!(live(1000, false).is_due(at(2000), size), "times have changed");
    assert!(live(1000, false).is_due(at(0), size), "the clock was set back");
}

#[test]
fn draws_nothing_for_empty_rollout() {
    let mut live = live(0, true);
    live.drawn = None;
    live.draw_if_due(at(0)).unwrap();
    assert!(live.drawn.is_none());
    live.finish(at(1)).unwrap();
}
