//! Fuzz target of the gates of objects: the first line is `jsonPath` or `condition`, the others are the object that the
//! API server returns. A text that is read prints as a text that is read to the same, in time linear to its length, and
//! a reason is one line without hidden characters.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodecfg_contract::names::GateName;
use nodecfg_contract::printable::is_hidden;
use nodecfg_fleet::gates::{parse_condition, parse_json_path_value};
use nodecfg_fleet::gates::{Gate, GateCheck, Moment, PATIENCE};
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_rollout::judge::{Answer, KnownSeries, judge};

fuzz_target!(|text: &str| {
    let (line, object) = text.split_once('\n').unwrap_or((text, "{}"));
    for (wanted, again) in [
        (parse_json_path_value(line), parse_json_path_value as fn(&str) -> _),
        (parse_condition(line), parse_condition),
    ] {
        let Ok(wanted) = wanted else { continue };
        assert_eq!(again(&wanted.to_string()).as_ref(), Ok(&wanted));
        let Ok(found) = serde_json::from_str(object) else { continue };
        let object =
            ObjectRef { api_version: "v1".to_owned(), kind: "Pod".to_owned(), namespace: None, by: ObjectId::Name("a".to_owned()) };
        let gate = Gate {
            name: GateName::new("a").unwrap(),
            check: GateCheck::Object { object, wanted },
            at: Moment::ALL.into(),
            patience: PATIENCE,
        };
        let state = judge(&gate, &Answer::Object(Ok(found)), &KnownSeries::default());
        if let Some(why) = state.why() {
            assert!(!why.contains('\n') && !why.chars().any(is_hidden), "{why:?}");
            assert!(why.chars().count() < 2000, "{why}");
        }
    }
});
