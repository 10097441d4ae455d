//! Elements that sections of the page share: tables, ends of long lists, times and capitals.

use jiff::Timestamp;
use maud::{Markup, html};

use super::text::Text;

/// The maximum items of a list.
pub(super) const MAX_ITEMS: usize = 50;

/// A note about omitted items.
pub(super) fn more(number: usize, what: &str) -> Markup {
    html! {
        @if number > MAX_ITEMS {
            p.quiet { (number - MAX_ITEMS) " more " (what) "; see the JSON output." }
        }
    }
}

/// A table that scrolls horizontally. A column without a name has no heading.
pub(super) fn table(class: &str, label: Option<&str>, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table class=(class) aria-label=[label.map(Text)] {
                thead {
                    tr {
                        @for column in columns {
                            @if column.is_empty() { td {} } @else { th scope="col" { (column) } }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// Formats a time.
pub(super) fn time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Capitalizes the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
