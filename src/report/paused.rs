//! The pause of a whole fleet, which each command that shows the fleet states first.

use super::document::{Block, Item, Report, Text};
use crate::status::Paused;

/// The pause of a fleet by its repository (`spec.paused`), and that by an order (`nodecfg pause --all --reason TEXT`).
pub(super) fn items(pause: Option<&Paused>) -> impl Iterator<Item = Item> {
    let of_repository = pause.filter(|pause| pause.in_repository).map(|_| {
        let next = "set spec.paused of the Fleet to false when the reason no longer applies";
        Item::bad("paused", "the whole fleet, in the repository (spec.paused of the Fleet)")
            .with([Item::labeled("next", next)])
    });
    let ordered = pause.and_then(|pause| pause.order.as_ref()).map(|pause| {
        let next = Text::name("nodecfg resume --all").then(", when the reason no longer applies");
        Item::bad("paused", pause.to_string()).with([Item::labeled("next", next)])
    });
    of_repository.into_iter().chain(ordered)
}

/// The pause of a fleet by itself, for a command that shows its own result later.
#[must_use]
pub fn report(pause: &Paused) -> Report {
    Report { blocks: items(Some(pause)).map(Block::Item).collect(), ..Report::default() }
}
