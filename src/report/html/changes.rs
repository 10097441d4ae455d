//! What was to be done: for each pool the fields that change, from what to what, by which file and line, and what that does to pods that
//! run. Facts and words are those of the other reports of a review; values that may be secrets are gone from it already.

use super::document::{MOST, capital, more};
use super::markup::{Anchor, Attribute, Markup, class};
use super::page::Page;
use crate::report::count;
use crate::report::review::{clipped, words};
use crate::review::{Changes, PoolReview, Review, Setting};
use nodecfg_planning::plan::ChangedField;

/// How many fields of a pool are shown.
const FIELDS: usize = 200;
/// How long a value may be, in characters.
const VALUE: usize = 500;
/// Up to how many pools that change are open from the start.
const OPEN: usize = 3;

/// Writes the section, where something changes.
pub(super) fn write(main: &mut Markup, page: &Page, review: &Review) {
    if !review.is_changed() {
        return;
    }
    main.element("section", &[Attribute::Id(Anchor::Section("changes"))], |section| {
        let title = if page.command == "sync" { "What was to be done" } else { "What a sync would do" };
        section.leaf("h2", &[], title);
        section.element("p", &[], |line| {
            line.prose(&format!("Compared with {}, this {}.", words::side(&review.from), words::verdict(review)));
        });
        if !review.settings.is_empty() {
            write_settings(section, "fleet", &review.settings);
        }
        let changed: Vec<&PoolReview> = review.pools.iter().filter(|pool| pool.is_changed()).collect();
        let open: &[Attribute<'_>] = if changed.len() <= OPEN { &[Attribute::Fixed("open", "")] } else { &[] };
        for pool in changed.iter().take(MOST) {
            section.element("details", open, |details| write_pool(details, review, pool));
            section.line();
        }
        more(section, changed.len(), "pools that change");
        let settled = review.pools.len() - changed.len();
        if settled > 0 {
            section.leaf("p", &[class("quiet")], &format!("Nothing changes for {}.", count(settled, "other pool")));
        }
    });
    main.line();
}

fn write_pool(details: &mut Markup, review: &Review, pool: &PoolReview) {
    details.element("summary", &[], |summary| {
        summary.leaf("b", &[], pool.name.as_str());
        let mut text = format!(": {}", words::headline(pool));
        if let Some(rollout) = &pool.rollout {
            text.push_str(&format!(", {} of {}", rollout.assign, count(rollout.nodes, "node")));
        }
        summary.text(&text);
    });
    if let Some(meaning) = words::explained(pool, review.cluster.is_some())
        && review.from != crate::review::Side::Cluster
    {
        details.element("p", &[], |line| line.prose(&format!("{}.", capital(meaning))));
    }
    if let Some(risk) = words::risk(pool) {
        details.element("p", &[], |line| {
            line.leaf("strong", &[], "Risk");
            line.text(" ");
            line.prose(&risk);
        });
    }
    if let (Some(refused), Some(refusal)) = (words::refused(pool), &pool.risk.refused) {
        details.element("p", &[class("remark")], |line| {
            line.prose(&format!("Refused by sync: {refused}. {}.", capital(&refusal.help)));
        });
    }
    for set in &pool.changes {
        write_changes(details, review, pool, set);
    }
    if !pool.settings.is_empty() {
        write_settings(details, pool.name.as_str(), &pool.settings);
    }
    if let Some(name) = &pool.config_map.after {
        details.element("p", &[class("quiet")], |line| {
            line.text("ConfigMap ");
            line.leaf("code", &[], name);
            line.text(match pool.config_map.create {
                Some(true) => ", created by this",
                Some(false) => ", which exists",
                None => "",
            });
        });
    }
    for file in pool.files.iter().take(MOST) {
        details.element("p", &[class("quiet")], |line| {
            line.leaf("code", &[], &file.path);
            line.text(&format!(" {}", words::file(file.change)));
        });
    }
}

fn write_changes(details: &mut Markup, review: &Review, pool: &PoolReview, set: &Changes) {
    if let Some(line) = words::leaving(review, pool, set) {
        details.element("p", &[], |text| text.prose(&format!("{}:", capital(&line))));
    }
    if set.fields.is_empty() {
        return;
    }
    table(details, pool.name.as_str(), &["field", "now", "new", "risk", "set by"], |body| {
        for field in set.fields.iter().take(FIELDS) {
            body.element("tr", &[], |row| write_field(row, field));
            body.line();
        }
    });
    if let Some(rest) = set.fields.len().checked_sub(FIELDS).filter(|rest| *rest > 0) {
        details.leaf("p", &[class("quiet")], &format!("{} more; `nodecfg diff` has them.", count(rest, "field")));
    }
}

fn write_field(row: &mut Markup, field: &ChangedField) {
    let change = &field.change;
    row.element("th", &[Attribute::Fixed("scope", "row")], |cell| {
        cell.leaf("code", &[], &clipped(&change.path, VALUE));
    });
    value(row, "del", change.old.as_deref());
    value(row, "ins", change.new.as_deref());
    row.element("td", &[], |cell| match &field.risk {
        Some(risk) => {
            cell.leaf("b", &[], risk.class.as_str());
            cell.text(" ");
            cell.element("span", &[class("quiet")], |why| why.prose(&words::why_and_source(risk)));
        }
        None => cell.text("not known"),
    });
    row.element("td", &[], |cell| match &change.place {
        Some(place) => cell.leaf("code", &[], &clipped(&place.to_string(), VALUE)),
        None => cell.text("–"),
    });
}

fn value(row: &mut Markup, kind: &'static str, value: Option<&str>) {
    row.element("td", &[], |cell| match value {
        Some(value) => cell.element(kind, &[], |inner| inner.leaf("code", &[], &clipped(value, VALUE))),
        None => cell.text("–"),
    });
}

fn write_settings(around: &mut Markup, name: &str, settings: &[Setting]) {
    table(around, name, &["setting", "now", "new", "what it is"], |body| {
        for setting in settings {
            body.element("tr", &[], |row| {
                row.element("th", &[Attribute::Fixed("scope", "row")], |cell| cell.leaf("code", &[], setting.path));
                value(row, "del", setting.old.as_deref());
                value(row, "ins", setting.new.as_deref());
                row.leaf("td", &[], setting.meaning);
            });
        }
    });
}

fn table(around: &mut Markup, name: &str, columns: &[&str], body: impl FnOnce(&mut Markup)) {
    let label = format!("Changes: {name}");
    around.element("div", &[class("scroll")], |scroll| {
        scroll.element("table", &[class("changes"), Attribute::Label(&label)], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for column in columns {
                        row.leaf("th", &[Attribute::Fixed("scope", "col")], column);
                    }
                });
            });
            table.element("tbody", &[], body);
        });
    });
}
