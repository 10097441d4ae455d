//! The checks of `apiVersion` and `kind`. The kubelet reads both first, with encoding/json, which ignores case
//! (apimachinery `serializer/json/meta.go`). The last text wins if a name has several spellings; null is skipped.

use super::Load;
use crate::document::{Entry, Mapping, Node, Reading, Syntax};
use crate::{API_VERSION, KIND};

impl Load {
    /// Checks `apiVersion` and `kind`. Returns false if one is refused; the kubelet then decodes no other field.
    pub(super) fn check_header(&mut self, map: &Mapping, root: &Node) -> bool {
        let version = self.require_text("api-version", "apiVersion", API_VERSION, map, root);
        let kind = self.require_text("kind", "kind", KIND, map, root);
        version && kind
    }

    fn require_text(&mut self, rule: &'static str, name: &str, wanted: &str, map: &Mapping, root: &Node) -> bool {
        let mut spellings: Vec<&Entry> = map.iter().filter(|(key, _)| folds_to(key, name)).map(|(_, e)| e).collect();
        // YAML becomes JSON with sorted keys, as in the map; JSON keeps the order of the text.
        if self.syntax == Syntax::Json {
            spellings.sort_by_key(|entry| entry.key_place.offset);
        }
        let mut found: Option<(&str, &Node)> = None;
        for entry in spellings {
            match entry.value.reading() {
                Some(Reading::Text(text)) => found = Some((text, &entry.value)),
                Some(Reading::Null) => {}
                _ => {
                    let message = format!("{name} must be text, not {}", entry.value.describe());
                    self.refuse(rule, name.to_owned(), &entry.value, message).help(format!("write {name}: {wanted}"));
                    return false;
                }
            }
        }
        let (message, node) = match found {
            Some((text, _)) if text == wanted => return true,
            Some((text, node)) if !text.is_empty() => {
                (format!("{name} is {text:?}; the kubelet accepts only {wanted}"), node)
            }
            Some((_, node)) => (format!("{name} is empty"), node),
            None => (format!("{name} is missing"), root),
        };
        self.refuse(rule, name.to_owned(), node, message).help(format!("write {name}: {wanted}"));
        false
    }
}

/// Reports whether encoding/json accepts a key for a name. Besides ASCII case it folds `ſ` and the Kelvin sign.
pub(crate) fn folds_to(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}
