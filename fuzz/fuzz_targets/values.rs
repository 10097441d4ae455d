//! Fuzz target of the short values of files and clusters: a value that is read prints as a text that is read to the same
//! value.

#![no_main]

use kubelet_config::capacity::{Capacity, PodRange};
use kubelet_config::values::duration;
use kubelet_config::values::quantity::Quantity;
use libfuzzer_sys::fuzz_target;
use nodecfg_contract::{ContentHash, KubeletVersion};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{FleetName, NodeName};
use nodecfg_observed::{CreationTime, DrainMark, ServerVersion};
use nodecfg_fleet::schedule::window::Start;

fuzz_target!(|text: &str| {
    if let Ok(nanoseconds) = duration::nanoseconds(text) {
        assert_eq!(duration::nanoseconds(&duration::go(nanoseconds)), Ok(nanoseconds));
        if let Ok(duration) = duration::parse(text) {
            assert_eq!(duration::parse(&duration::format(duration)), Ok(duration));
        }
    }
    if let Ok(amount) = Quantity::parse(text) {
        // The smallest number has no counterpart, so that it is read as its neighbor.
        let again = Quantity::parse(&amount.to_string()).unwrap();
        assert!(again == amount || amount.is_negative() && again.plus(amount).is_negative(), "{amount}");
        assert_eq!(amount.is_negative(), amount.rounded_up() < 0);
    }
    if let Ok(selector) = text.parse::<LabelSelector>() {
        if !selector.is_everything() {
            assert_eq!(selector.to_string().parse().as_ref(), Ok(&selector));
        }
        if let Some(labels) = selector.example() {
            assert!(selector.matches(&labels));
        }
    }
    if let Ok(start) = Start::parse(text) {
        // `Fri-Fri` is one day.
        let shown = start.to_string();
        assert!(shown == text || text.split_once('-').is_some_and(|(day, rest)| rest.starts_with(day)), "{shown}");
        assert_eq!(Start::parse(&shown), Ok(start));
    }
    if let Some(hash) = ContentHash::parse(text) {
        assert_eq!(hash.to_string(), text);
    }
    if let Some(version) = KubeletVersion::parse(text) {
        assert_eq!(KubeletVersion::parse(&version.to_string()), Some(version));
    }
    if let Some(range) = PodRange::parse(text) {
        assert!(range.pods() > 0);
    }
    let _ = Capacity::parse(Some(text), Some(text), Some(text));
    let _ = CreationTime::parse(text);
    let _ = DrainMark::read(true, Some(text));
    let _ = ServerVersion::read(text, text, text);
    assert_eq!(FleetName::new(text).is_ok_and(|name| name.as_str() != text), false);
    assert_eq!(NodeName::new(text).is_ok_and(|name| name.as_str() != text), false);
});
