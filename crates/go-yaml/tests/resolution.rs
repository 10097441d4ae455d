//! Tests of scalars: what Go reads, what other readers read, and a notation for all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use go_yaml::{Ambiguity, Limits, Node, Reading, Scalar, Value, parse};

fn root(text: &str) -> Option<Node> {
    parse(text, &Limits::default()).root
}

#[test]
fn reads_plain_scalars_as_yaml_v2() {
    for (text, meaning) in [
        ("", "null"),
        ("~", "null"),
        ("null", "null"),
        ("true", "the boolean true"),
        ("FALSE", "the boolean false"),
        ("tRUE", "the text \"tRUE\""),
        ("yes", "the boolean true"),
        ("Off", "the boolean false"),
        ("0", "the number 0"),
        ("-0", "the number 0"),
        ("00", "the number 0"),
        ("+5", "the number 5"),
        ("0777", "the number 511"),
        ("08", "the number 8"),
        ("0x10", "the number 16"),
        ("0b101", "the number 5"),
        ("1_000", "the number 1000"),
        ("1e2", "the number 100"),
        ("5.0", "the number 5"),
        ("5.", "the number 5"),
        (".5", "the number 0.5"),
        ("-0.0", "the number 0"),
        ("0.8", "the number 0.8"),
        ("1e300", "the number 1.0e+300"),
        ("1.5e-9", "the number 1.5e-9"),
        ("1e999", "the text \"1e999\""),
        ("18446744073709551615", "the number 18446744073709551615"),
        ("18446744073709551616", "the number 1.8446744073709552e+19"),
        ("-.inf", "the number -.inf"),
        ("1:30", "the text \"1:30\""),
        ("10%", "the text \"10%\""),
        ("100Mi", "the text \"100Mi\""),
        ("2001-01-01", "the text \"2001-01-01\""),
        ("1.2.3", "the text \"1.2.3\""),
        ("_1", "the text \"_1\""),
        (".", "the text \".\""),
        ("e5", "the text \"e5\""),
        ("-", "the text \"-\""),
        ("0x", "the text \"0x\""),
    ] {
        assert_eq!(Scalar::plain(text).read().describe(), meaning, "{text}");
    }
}

#[test]
fn reads_unusual_numbers_as_yaml_v2() {
    for (text, reading) in [
        (".1_0", Reading::Float(0.1)),
        ("._1", Reading::Text("._1")),
        (".1_", Reading::Text(".1_")),
        (".5e3", Reading::Float(500.0)),
        (".5e999", Reading::Text(".5e999")),
        ("0b-101", Reading::Int(-5)),
        ("0b+11", Reading::Int(3)),
        ("-0b-101", Reading::Text("-0b-101")),
        ("+_5", Reading::Int(5)),
        ("0_7", Reading::Int(7)),
        ("1__0", Reading::Int(10)),
        ("-0777", Reading::Int(-511)),
        ("9223372036854775808", Reading::Int(9_223_372_036_854_775_808)),
        ("+9223372036854775808", Reading::Float(9_223_372_036_854_775_808.0)),
        ("1e-400", Reading::Float(0.0)),
    ] {
        assert_eq!(Scalar::plain(text).read(), reading, "{text}");
    }
}

#[test]
fn whole_numbers_follow_conversion_to_json() {
    for (text, whole) in [
        ("5.0", Some(5)),
        ("1e2", Some(100)),
        ("1e20", Some(100_000_000_000_000_000_000)),
        ("1e21", None),
        ("0.5", None),
        ("9007199254740993.0", Some(9_007_199_254_740_992)),
        ("9223372036854775807.0", Some(9_223_372_036_854_776_000)),
        ("-0.0", Some(0)),
        (".inf", None),
        ("x", None),
    ] {
        assert_eq!(Scalar::plain(text).read().whole(), whole, "{text}");
    }
}

#[test]
fn quotes_and_tags_force_text() {
    for text in ["yes", "0777", "", "null", "5"] {
        assert_eq!(Scalar::quoted(text).read(), Reading::Text(text));
        let root = root(&format!("--- !!str {text}\n")).expect("a value");
        assert_eq!(root.read(), Some(Reading::Text(text)));
    }
}

#[test]
fn finds_scalars_with_two_meanings() {
    for text in ["", "null", "true", "0", "-0", "00", "+5", "0x10", "1e2", "5.", ".5", "1:30", "2001-01-01", "0x", "_1"]
    {
        assert_eq!(Scalar::plain(text).ambiguity(), None, "{text}");
    }
    for (text, ambiguity) in [
        ("yes", Ambiguity::Yaml12(Reading::Text("yes"))),
        ("N", Ambiguity::Yaml12(Reading::Text("N"))),
        ("0777", Ambiguity::Yaml12(Reading::Int(777))),
        ("08", Ambiguity::Yaml12(Reading::Int(8))),
        ("0o17", Ambiguity::Yaml11("0o17")),
        ("-0o17", Ambiguity::Yaml11("-0o17")),
        ("1_000", Ambiguity::Yaml12(Reading::Text("1_000"))),
        ("1e999", Ambiguity::NotFinite),
        (".inf", Ambiguity::NotFinite),
        (".NaN", Ambiguity::NotFinite),
    ] {
        assert_eq!(Scalar::plain(text).ambiguity(), Some(ambiguity), "{text}");
        assert_eq!(Scalar::quoted(text).ambiguity(), None);
    }
    assert!(Scalar::plain("18446744073709551616").ambiguity().is_some());
    assert!(Scalar::plain("9".repeat(60)).ambiguity().is_some());
}

#[test]
fn resolves_tagged_scalars() {
    for (tagged, meaning) in [
        ("!!int 10", "the number 10"),
        ("!!float 10", "the number 10"),
        ("!!bool no", "the boolean false"),
        ("!!null ''", "null"),
        ("!!str 5", "the text \"5\""),
        ("!!timestamp 2001-2-30", "\"2001-2-30\" is not a valid `!!timestamp`"),
        ("!!timestamp 2004-2-29", "the text \"2004-2-29\""),
        ("!!timestamp 1900-2-29", "\"1900-2-29\" is not a valid `!!timestamp`"),
        ("!!timestamp 2000-02-29", "the text \"2000-02-29\""),
        ("!!timestamp 2001-12-14t21:59:43.10-05:00", "the text \"2001-12-14t21:59:43.10-05:00\""),
        ("!!timestamp 2001-12-14 21:59:43", "the text \"2001-12-14 21:59:43\""),
        ("!!timestamp 2001-12-14T21:59:43", "\"2001-12-14T21:59:43\" is not a valid `!!timestamp`"),
        ("!!timestamp 5", "\"5\" is not a valid `!!timestamp`"),
        ("!!int 5.0", "\"5.0\" is not a valid `!!int`"),
        ("!!float 18446744073709551615", "\"18446744073709551615\" is not a valid `!!float`"),
        ("!!bool x", "\"x\" is not a valid `!!bool`"),
        ("!!null x", "\"x\" is not a valid `!!null`"),
        ("!!binary aGk=", "the text \"hi\""),
        ("!!binary aGk", "`!!binary` requires base64"),
        ("!!binary \"aG\\nk=\"", "the text \"hi\""),
        ("!!binary 4oI=", "the text \"\u{fffd}\u{fffd}\""),
        ("!!binary a", "`!!binary` requires base64"),
        ("!!binary ====", "`!!binary` requires base64"),
        ("!!binary aG=k", "`!!binary` requires base64"),
        ("!!map x", "the text \"x\""),
        ("!mine 5", "the text \"5\""),
    ] {
        let parsed = parse(tagged, &Limits::default());
        let read = match &parsed.root {
            Some(root) => root.read().expect("a scalar").describe(),
            None => parsed.problems.last().expect("a problem").to_string(),
        };
        assert_eq!(read, meaning, "{tagged}");
    }
}

#[test]
fn converts_keys_as_sigs_yaml() {
    for (text, key) in [
        ("1", Some("1")),
        ("0x10", Some("16")),
        ("yes", Some("true")),
        ("1.50", Some("1.5")),
        ("1e2", Some("100")),
        ("1e6", Some("1e+06")),
        ("123456789.5", Some("1.2345679e+08")),
        ("0.00001", Some("1e-05")),
        ("1e40", Some(".inf")),
        ("-.inf", Some("-.inf")),
        ("-0.0", Some("-0")),
        ("x", Some("x")),
        ("~", None),
        ("18446744073709551615", None),
    ] {
        let found = root(&format!("{text}: 1\n")).map(|root| match root.value {
            Value::Mapping(map) => map.into_keys().collect::<String>(),
            other => panic!("{other:?}"),
        });
        assert_eq!(found.as_deref(), key, "{text}");
    }
}
