//! Reports in each format, for tests, and tests of what all formats have in common.

use jiff::Timestamp;
use serde_json::json;

use super::json::Noticed;
use super::terminal::Layout;
use super::{Conclusion, Item, Report, Text, html, markdown, terminal};
use crate::report::status;
use crate::status::Grade;
use nodecfg_observed::Observed;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// The report as text without colors.
pub(in crate::report) fn text(report: &Report, width: usize, all: bool) -> String {
    let layout = Layout { width, all, all_option: "-v" };
    let text = written(|out| terminal::write(out, report, layout).unwrap());
    anstream::adapter::strip_str(&text).to_string()
}

/// The report as markdown of any length.
pub(in crate::report) fn markdown(report: &Report) -> String {
    markdown::render(report, false, None)
}

/// The report as a page.
pub(in crate::report) fn page(report: &Report) -> String {
    written(|out| html::write(out, report, Timestamp::UNIX_EPOCH).unwrap())
}

/// The body of a page between style and script, which are the same on all pages, with an element on each line.
pub(in crate::report) fn body(report: &Report) -> String {
    let page = page(report);
    let (begin, end) = (page.find("<body>").unwrap(), page.find("<script>").unwrap());
    page[begin..end].replace("><", ">\n<")
}

/// The report in each format for readers.
pub(in crate::report) fn each(report: &Report) -> [String; 3] {
    [text(report, 200, true), markdown(report), page(report)]
}

/// A new notice costs the line that makes it: no format knows what notices say.
#[test]
fn a_notice_is_in_every_format() {
    let status = crate::status::build(&Observed::default(), None, Vec::new(), Timestamp::UNIX_EPOCH);
    let mut report = status::whole(&status, "https://cluster.example", None);

    let notice = Item::warning("weather", Text::from("a storm in ").then(Text::name("eu-1")));
    report.blocks.push(notice.with([Item::labeled("help", "wait")]).into());

    for shown in each(&report) {
        for word in ["weather", "a storm in", "eu-1", "help", "wait"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
    let document = serde_json::to_value(Noticed::of(status::body(&status), &report)).unwrap();
    let below = json!([{"label": "help", "text": "wait"}]);
    let expected = json!([{"label": "weather", "grade": "warning", "text": "a storm in eu-1", "below": below}]);
    assert_eq!(document["notices"], expected);
}

/// A person who confirms a deletion sees all that is deleted.
#[test]
fn results_are_listed_in_full() {
    let item = |number| Item::warning("to delete", Text::name(format!("map-{number}"))).into();
    let list = Report { blocks: (0..200).map(item).collect(), complete: true, ..Report::default() };
    for shown in [text(&list, 80, false), markdown(&list), page(&list)] {
        assert_eq!(shown.matches("map-").count(), 200, "{shown}");
    }
    let others = Report { complete: false, ..list };
    for (shown, most) in [(text(&others, 80, false), 20), (markdown(&others), 50), (page(&others), 50)] {
        assert_eq!(shown.matches("map-").count(), most, "{shown}");
        assert!(shown.contains(&format!("to delete: {} more", 200 - most)), "{shown}");
    }
}

#[test]
fn text_at_the_start_of_an_item_is_no_block() {
    let texts = ["> quoted", "- x", "1. fix", "2) fix", "# title", "    code", "--- ", "+ x"];
    let items = texts.map(|text| Item::new(text).into());
    let shown = markdown(&Report { blocks: items.into(), ..Report::default() });
    for line in shown.lines().filter(|line| !line.is_empty()) {
        let content = line.strip_prefix("- ").unwrap();
        assert!(content.starts_with('\u{200b}') || content.starts_with("code"), "{line:?}");
    }
    // Outside of tables, borders are no markup.
    let query = Item::new(Text::name("up{job=~\"a|b\"} == 0"));
    assert_eq!(markdown(&Report { blocks: vec![query.into()], ..Report::default() }), "- `up{job=~\"a|b\"} == 0`\n\n");
}

#[test]
fn page_of_a_change_has_its_result_and_the_worse_grade() {
    let report = Report {
        lead: Some(Conclusion::sentence(Grade::Warning, "Syncing this changes 2 pools.")),
        result: Some(Conclusion {
            label: "Plan:".to_owned(),
            grade: Grade::Good,
            text: "3 ConfigMaps to create".into(),
        }),
        ..Report::default()
    };
    let shown = page(&report);
    assert!(
        shown.contains("<p>Plan: 3 ConfigMaps to create</p>") && shown.contains("<header class=\"bad\">"),
        "{shown}"
    );
    let good = Report { lead: Some(Conclusion::sentence(Grade::Good, "Syncing this changes nothing.")), ..report };
    assert!(page(&good).contains("<header class=\"good\">"));
}
