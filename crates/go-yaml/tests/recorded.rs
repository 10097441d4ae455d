//! Texts with the answers of a Go program: kubelets 1.21.1 and 1.36.2, which read files with sigs.k8s.io/yaml.

use go_yaml::{Limits, Reading, parse};

/// Errors as the kubelets wrote them, without the line.
#[test]
fn refuses_what_a_go_program_refused() {
    for (text, error) in [
        ("a:\n\tb:\n\t\tc: false\n", "found character that cannot start any token"),
        ("a: @abc\n", "found character that cannot start any token"),
        ("a: `abc\n", "found character that cannot start any token"),
        ("a: \"abc\n", "found unexpected end of stream"),
        ("a:\n  b:\n     c: false\n    d: 1\n", "did not find expected key"),
        ("k: x\n- a\nb: 10\n", "did not find expected key"),
        ("a:\n  b:\n c: /a\n", "did not find expected key"),
        ("a: ::bad::\n", "mapping values are not allowed in this context"),
        ("a: a: b\n", "mapping values are not allowed in this context"),
        ("a: \"a\u{1}b\"\n", "control characters are not allowed"),
        ("a: \"a\u{7f}b\"\n", "control characters are not allowed"),
        ("a: \"\\ud800\"\n", "found invalid Unicode character escape code"),
        ("a: \"\\q\"\n", "found unknown escape character"),
    ] {
        let problems = parse(text, &Limits::default()).problems;
        let found = problems.last().map(ToString::to_string).unwrap_or_default();
        assert!(found.starts_with(error), "{text:?}: {found}");
    }
}

/// Fields that the kubelets took as a number, a boolean, text or null.
#[test]
fn reads_what_a_go_program_read() {
    for (text, reading) in [
        ("\u{feff}a: 10\n", Reading::Int(10)),
        ("a: 10\t\n", Reading::Int(10)),
        ("b: 1\ra: 10\r", Reading::Int(10)),
        ("? a\n: 10\n", Reading::Int(10)),
        ("a: 10\n...\nthis is: [junk\n", Reading::Int(10)),
        ("%YAML 1.1\n---\na: 10\n", Reading::Int(10)),
        ("a: 10\na: -5\n", Reading::Int(-5)),
        ("b: &n 20\na: *n\n", Reading::Int(20)),
        ("b: &n 10\nc: &n 5\na: *n\n", Reading::Int(5)),
        ("b: &b\n  a: 10\n<<: *b\n", Reading::Int(10)),
        ("a: 0200000\n", Reading::Int(65_536)),
        ("a: 0o777\n", Reading::Int(511)),
        ("a: -0777\n", Reading::Int(-511)),
        ("a: 1__0\n", Reading::Int(10)),
        ("a: 1e+2\n", Reading::Float(100.0)),
        ("a: 089\n", Reading::Float(89.0)),
        ("a: 1e-400\n", Reading::Float(0.0)),
        ("a: !!int \"10\"\n", Reading::Int(10)),
        ("a: !!bool \"false\"\n", Reading::Bool(false)),
        ("a: off\n", Reading::Bool(false)),
        ("a: Y\n", Reading::Bool(true)),
        ("a: ~\n", Reading::Null),
        ("a: Null\n", Reading::Null),
        ("a: !!str 123\n", Reading::Text("123")),
        ("a: !foo bar\n", Reading::Text("bar")),
        ("a: 1:30\n", Reading::Text("1:30")),
        ("a: _10\n", Reading::Text("_10")),
        ("a: 1 0\n", Reading::Text("1 0")),
        ("a: <<\n", Reading::Text("<<")),
        ("a: =\n", Reading::Text("=")),
        ("a: 2024-01-01T00:00:00Z\n", Reading::Text("2024-01-01T00:00:00Z")),
        ("a: a #b\n", Reading::Text("a")),
        ("a: \"\\x41\"\n", Reading::Text("A")),
    ] {
        let root = parse(text, &Limits::default()).root;
        let value = root.as_ref().and_then(|root| root.get("a"));
        assert_eq!(value.and_then(|value| value.read()), Some(reading), "{text:?}");
    }
}
