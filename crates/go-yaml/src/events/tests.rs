//! Tests of the parser against libyaml where libyaml differs from the specification or from other readers.

use super::{Event, Events};

/// Formats the events of the first document: `{`, `}`, `[`, `]`, `*alias`, quoted scalars; or the error.
fn read(text: &str) -> String {
    let mut events = Events::new(text);
    let mut out = Vec::new();
    loop {
        let spanned = match events.next() {
            Ok(spanned) => spanned,
            Err(error) => return format!("{}:{} {}", error.mark.line, error.mark.column, error.problem),
        };
        out.push(match spanned.event {
            Event::DocumentStart => continue,
            Event::StreamEnd | Event::DocumentEnd => return out.join(" "),
            Event::Alias(name) => format!("*{name}"),
            Event::Scalar { text, properties, .. } => {
                let tag = properties.tag.map(|tag| format!("<{tag}>")).unwrap_or_default();
                let anchor = properties.anchor.map(|anchor| format!("&{anchor}")).unwrap_or_default();
                format!("{anchor}{tag}{text:?}")
            }
            Event::SequenceStart(_) => "[".to_owned(),
            Event::SequenceEnd => "]".to_owned(),
            Event::MappingStart(_) => "{".to_owned(),
            Event::MappingEnd => "}".to_owned(),
        });
    }
}

#[test]
fn reads_what_libyaml_reads() {
    for (text, events) in [
        ("a: 1\nb:\n- x\n- y: z\n", r#"{ "a" "1" "b" [ "x" { "y" "z" } ] }"#),
        ("", ""),
        ("# only\n", ""),
        ("---\n...\n", "\"\""),
        ("%YAML 1.1\n--- a", "\"a\""),
        // Content after the first document is ignored.
        ("a: 1\n...\n[", r#"{ "a" "1" }"#),
        ("a: 1\n---\n\u{1}", "1:1 control characters are not allowed (U+0001)"),
        ("[a] b [", r#"[ "a" ]"#),
        ("'a' b", "\"a\""),
        // A byte order mark is dropped at the start of a text, and is a character elsewhere.
        ("\u{feff}a: 1\n\u{feff}b: 2", "{ \"a\" \"1\" \"\\u{feff}b\" \"2\" }"),
        ("a:\r  b\rc: d\u{85}e: f", r#"{ "a" "b" "c" "d" "e" "f" }"#),
        ("a: b\u{2028}  c", "{ \"a\" \"b\\u{2028}c\" }"),
        ("a: b\n\n  c\n  d", r#"{ "a" "b\nc d" }"#),
        ("? a\n? b\n: c\n?\n", r#"{ "a" "" "b" "c" "" "" }"#),
        ("[a: b, ? c, {d, e: }]", r#"[ { "a" "b" } { "c" "" } { "d" "" "e" "" } ]"#),
        ("{a:b, \"c\":d, e: http://f}", r#"{ "a:b" "" "c" "d" "e" "http://f" }"#),
        ("[a,\t# c\n b\t]", r#"[ "a" "b" ]"#),
        ("a: |\n  x\n   y\n\n  z\n\nb: >-\n  x\n  y\n\n   z\n", r#"{ "a" "x\n y\n\nz\n" "b" "x y\n\n z" }"#),
        ("a: |2+\n   x\n\n", r#"{ "a" " x\n\n" }"#),
        ("'it''s\n\n  it'", "\"it's\\nit\""),
        (
            r#""\x41\u00e9\U0001F600\e\N\
           b""#,
            "\"Aé😀\\u{1b}\\u{85}b\"",
        ),
        (
            "- !!str a\n- !b c\n- !<d> e\n- ! f\n- !%41 g\n- &h\n- *h",
            r#"[ <tag:yaml.org,2002:str>"a" <!b>"c" <d>"e" <!>"f" <!A>"g" &h"" *h ]"#,
        ),
        ("%TAG !e! tag:e,1:\n--- !e!x y", "<tag:e,1:x>\"y\""),
    ] {
        assert_eq!(read(text), events, "{text:?}");
    }
}

#[test]
fn refuses_what_libyaml_refuses() {
    let long = format!("{}: 1", "k".repeat(1025));
    for (text, problem) in [
        ("a: b: c", "1:5 mapping values are not allowed in this context"),
        ("a:\n\tb: c", "2:1 found character that cannot start any token"),
        ("a: @b", "1:4 found character that cannot start any token"),
        ("a: `b", "1:4 found character that cannot start any token"),
        ("a: %b", "1:4 found character that cannot start any token"),
        ("a: [b", "1:6 did not find expected ',' or ']'"),
        ("a: {b ? c}", "1:7 did not find expected ',' or '}'"),
        ("a: 'b", "1:6 found unexpected end of stream"),
        ("a: \"b\n---\n\"", "2:1 found unexpected document indicator"),
        ("a: b\n- c", "2:1 did not find expected key"),
        ("a:\n  b: c\n d: e", "3:2 did not find expected key"),
        ("a: b\nc", "2:2 could not find expected ':'"),
        ("[a] b: c", "1:5 did not find expected key"),
        ("a: - b", "1:4 block sequence entries are not allowed in this context"),
        ("%YAML 1.2\n---\na: b", "1:1 found incompatible YAML document"),
        ("%YAML 1.1\n%YAML 1.1\n---", "2:1 found duplicate %YAML directive"),
        ("%FOO\n---", "1:5 found unknown directive name"),
        ("%YAML 1.1\na: b", "2:1 did not find expected <document start>"),
        ("a: \"\\q\"", "1:5 found unknown escape character"),
        ("a: \"\\ud800\"", "1:7 found invalid Unicode character escape code"),
        ("a: \"\\u12\"", "1:7 did not find expected hexdecimal number"),
        ("a: !x!y z", "1:4 found undefined tag handle"),
        ("a: !x{ y", "1:6 did not find expected whitespace or line break"),
        ("a: &b&c d", "1:6 did not find expected alphabetic or numeric character"),
        ("a: |0\n x", "1:5 found an indentation indicator equal to 0"),
        ("a: |x\n y", "1:5 did not find expected comment or line break"),
        ("a: |\n\tx", "2:1 found a tab character where an indentation space is expected"),
        ("a: b\n\tc", "2:1 found a tab character that violates indentation"),
        ("a: \u{7f}", "1:1 control characters are not allowed (U+007F)"),
        ("a: b\n: c", "2:1 did not find expected key"),
        (":", "1:1 did not find expected key"),
        (long.as_str(), "1:1026 mapping values are not allowed in this context"),
        (&"[".repeat(10_001), "1:10001 exceeded max depth of 10000"),
        (&"- ".repeat(10_001), "1:20001 exceeded max depth of 10000"),
    ] {
        assert_eq!(read(text), problem, "{:?}", text.get(..40).unwrap_or(text));
    }
}

#[test]
fn repeats_stream_end() {
    let mut events = Events::new("a");
    let kinds: Vec<Event> = (0..6).filter_map(|_| events.next().ok()).map(|spanned| spanned.event).collect();
    assert_eq!(kinds[2..], [Event::DocumentEnd, Event::StreamEnd, Event::StreamEnd, Event::StreamEnd]);
}
