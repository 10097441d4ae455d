//! The part of the Common Expression Language that rules of CustomResourceDefinitions (`x-kubernetes-validations`) are
//! commonly written in: literals, fields, operators, `has`, the macros over lists and maps, and functions of texts.
//!
//! What is not understood is refused when the definition is made, as a server refuses what does not compile, so that no rule
//! is ever passed over in silence. Types are looked at when a rule runs, not before; there are no cost limits.

mod evaluate;
mod functions;
mod parse;

use serde_json::Value;

pub(crate) use evaluate::Scope;
use evaluate::evaluate;
use parse::Node;

/// A rule that was read.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    root: Node,
}

impl Program {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is not understood, and where.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        Ok(Self { root: parse::parse(text)? })
    }

    /// Whether it asks about the state before.
    pub(crate) fn uses_old(&self) -> bool {
        self.root.names("oldSelf")
    }

    /// What it comes to.
    ///
    /// # Errors
    /// As CEL words them: a key that is missing, an operation that the values do not have.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, String> {
        evaluate(&self.root, scope).map(std::borrow::Cow::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(text: &str, value: &Value) -> Result<Value, String> {
        let program = Program::compile(text).map_err(|why| format!("compile: {why}"))?;
        program.evaluate(&Scope::of(value, Some(value)))
    }

    #[track_caller]
    fn is(text: &str, expected: Value) {
        let value = json!({
            "name": "kubelet", "n": 3, "f": 1.5, "list": ["a", "b"], "map": {"x": 1, "y": 2}, "yes": true,
            "configMap": {"name": "a", "namespace": "ns", "kubeletConfigKey": "kubelet"},
        });
        assert_eq!(run(text, &value), Ok(expected), "{text}");
    }

    #[test]
    fn operators_bind_as_in_c() {
        is("1 + 2 * 3 - -4", json!(11));
        is("(1 + 2) * 3 % 5", json!(4));
        is("1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2 && 1 == 1.0", json!(true));
        is("false || !false && true", json!(true));
        is("self.yes ? 'a' : \"b\"", json!("a"));
        is("self.n > 2 ? self.n > 5 ? 1 : 2 : 3", json!(2));
        is("'a' + 'b' == 'ab' && 'a' < 'b' && [1] + [2] == [1, 2]", json!(true));
        is("self.f * 2.0 == 3.0 && 7 / 2 == 3", json!(true));
        is("self.name in ['kubelet', 'x'] && 'x' in self.map && !('z' in self.map)", json!(true));
        is("self.list[1] == 'b' && self.map['y'] == 2 && {'a': 1}.a == 1", json!(true));
        is(r"'a\'b' == 'a\'b' && r'\d' == '\\d' && '\n' != 'n'", json!(true));
    }

    #[test]
    fn has_functions_and_macros() {
        is("has(self.name) && !has(self.other) && has(self.configMap.name) && !has(self.configMap.uid)", json!(true));
        is("size(self.name) == 7 && self.list.size() == 2 && size(self.map) == 2 && 'é'.size() == 1", json!(true));
        is("self.name.startsWith('ku') && self.name.endsWith('let') && self.name.contains('bel')", json!(true));
        is("self.name.matches('^[a-z]+$') && !self.name.matches('^[0-9]')", json!(true));
        is("self.list.all(x, x in ['a', 'b']) && self.list.exists(x, x == 'a')", json!(true));
        is("self.list.exists_one(x, x == 'a') && !self.map.exists(k, k == 'z')", json!(true));
        is("self.list.map(x, x + '!')", json!(["a!", "b!"]));
        is("self.list.filter(x, x != 'a')", json!(["b"]));
        is("string(self.n) == '3' && int('4') == 4", json!(true));
        is("self.name.lowerAscii() == 'kubelet' && ' a '.trim() == 'a'", json!(true));
        is("'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'", json!(true));
        is("self == oldSelf && self.configMap == oldSelf.configMap", json!(true));
    }

    #[test]
    fn a_decided_side_hides_the_error_of_the_other() {
        is("self.nothing == 1 || true", json!(true));
        is("self.nothing == 1 && false", json!(false));
        is("!has(self.nothing) || self.nothing.size() > 0", json!(true));
        let value = json!({"a": 1});
        assert_eq!(run("self.nothing == 1", &value), Err("no such key: nothing".to_owned()));
        assert_eq!(run("self.a && true", &value), Err("no such overload".to_owned()));
        assert_eq!(run("self.a < 'x'", &value), Err("no such overload".to_owned()));
        assert_eq!(run("1 / 0", &value), Err("division by zero".to_owned()));
        assert_eq!(run("9223372036854775807 + 1", &value), Err("integer overflow".to_owned()));
        assert_eq!(run("[1][5]", &value), Err("index out of bounds: 5".to_owned()));
    }

    #[test]
    fn escaped_field_names() {
        let value = json!({"namespace": 1, "a-b": 2, "c.d/e": 3, "in": 4});
        let text =
            "self.__namespace__ == 1 && self.a__dash__b == 2 && self.c__dot__d__slash__e == 3 && self.__in__ == 4";
        assert_eq!(run(text, &value), Ok(json!(true)));
    }

    #[test]
    fn what_is_not_understood_does_not_compile() {
        for bad in [
            "",
            "self.",
            "self == ",
            "(self",
            "self.a.b(",
            "nope(self)",
            "self.nope()",
            "'open",
            "1 +* 2",
            "self a",
            "a = b",
            "has(self)",
            "self.all(1, true)",
            "self.list.all(x)",
            "unknown == 1",
            "[1, 2",
            "{'a' 1}",
            "\"\\q\"",
            "self.matches('(')",
        ] {
            let result = Program::compile(bad);
            // A pattern that is computed cannot be looked at beforehand; a literal one is.
            assert!(result.is_err(), "{bad}: {result:?}");
        }
        let deep = format!("{}self{}", "(".repeat(5000), ")".repeat(5000));
        assert!(Program::compile(&deep).is_err());
        assert!(Program::compile(&"!".repeat(5000)).is_err());
        assert!(Program::compile(&["1"; 5000].join("+")).is_err());
    }

    #[test]
    fn rules_of_transitions_are_told_apart() {
        assert!(Program::compile("self.a == oldSelf.a").unwrap().uses_old());
        assert!(!Program::compile("self.a == 'oldSelf' || self.oldSelf").unwrap().uses_old());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9.()\\[\\]{}'\"!&|=<>+*/%?:, -]{0,60}") {
            if let Ok(program) = Program::compile(&text) {
                let _ = program.evaluate(&Scope::of(&json!({"a": [1, {"b": "c"}]}), None));
            }
        }
    }
}
