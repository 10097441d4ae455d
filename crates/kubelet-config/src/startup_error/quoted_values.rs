//! The values of a configuration that an error of a kubelet quotes, and the fields that have them.

use serde_json::Value as Json;

use crate::defaults;
use crate::document::Document;
use crate::fields::{self, Field, Format, secrets};
use crate::values::{duration, quantity};

/// Length from which a value in an error is a sign by itself that the error concerns its field, in bytes.
const MIN_VALUE: usize = 3;
/// Number from which a number in an error is such a sign.
const MIN_NUMBER: i64 = 1000;
/// Length up to which a value is shown, in bytes.
const MAX_SHOWN: usize = 100;

/// The values and keys of a configuration, by field.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuotedValues {
    values: Vec<FieldValue>,
}

#[derive(Debug, Clone)]
struct FieldValue {
    /// The field. For a value in a map or list, that of the map or list.
    field: &'static Field,
    text: String,
    /// Whether it is a key of a map.
    is_key: bool,
}

impl QuotedValues {
    pub(crate) fn of(configuration: &Document) -> Self {
        let mut values = Vec::new();
        if let Json::Object(map) = configuration.to_json() {
            for (name, value) in &map {
                collect(fields::lookup(name), value, &mut values);
            }
        }
        Self { values }
    }

    /// The fields whose value the error quotes: those with the longest one.
    pub(crate) fn fields_in(&self, error: &str) -> Vec<&'static str> {
        self.longest(|value| value.is_sign().then(|| value.quoted_length(error, true)))
    }

    /// Those of the fields that are most likely the cause: with an invalid value, with a value that the error quotes, and
    /// with another value than the default. A condition that none of the fields meets does not count.
    pub(crate) fn narrow(&self, fields: &[&'static str], error: &str) -> Vec<&'static str> {
        let having = |fields: Vec<&'static str>, has: fn(&FieldValue) -> bool| {
            let found = |field: &&&str| self.values.iter().any(|value| value.field.path == ***field && has(value));
            some_or(fields.iter().filter(found).copied().collect(), fields)
        };
        let invalid = having(fields.to_vec(), FieldValue::is_invalid);
        let is_left = |value: &FieldValue| invalid.contains(&value.field.path.as_str());
        let quoted = self.longest(|value| is_left(value).then(|| value.quoted_length(error, false)));
        let quoted = some_or(invalid.iter().filter(|field| quoted.contains(field)).copied().collect(), invalid);
        having(quoted, |value| !value.is_default())
    }

    /// The longest part of a value of these fields that a text quotes. It is the configuration's, not the text's, and has
    /// no secret field.
    pub(crate) fn shown_in(&self, text: &str, fields: &[&str]) -> Option<&str> {
        let is_public = |value: &&FieldValue| {
            let path = value.field.path.as_str();
            fields.contains(&path) && !secrets::is_secret(path) && path != secrets::URL
        };
        let is_shown = |part: &&str| part.len() <= MAX_SHOWN && part.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let parts = self.values.iter().filter(is_public).filter_map(|value| value.quoted_part(text, false));
        parts.filter(is_shown).max_by_key(|part| part.len())
    }

    fn longest(&self, length: impl Fn(&FieldValue) -> Option<usize>) -> Vec<&'static str> {
        let lengths: Vec<_> = self.values.iter().filter_map(|value| Some((length(value)?, value.field))).collect();
        let longest = lengths.iter().map(|(length, _)| *length).max().unwrap_or_default();
        let mut fields: Vec<&'static str> = Vec::new();
        for (_, field) in lengths.iter().filter(|(length, _)| *length == longest && longest > 0) {
            if !fields.contains(&field.path.as_str()) {
                fields.push(&field.path);
            }
        }
        fields
    }
}

fn collect(field: Option<&'static Field>, value: &Json, values: &mut Vec<FieldValue>) {
    let Some(field) = field else { return };
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(value) => value.to_string(),
        Json::Null => return,
        Json::Array(list) => return list.iter().for_each(|value| collect(Some(field), value, values)),
        Json::Object(map) => {
            for (key, value) in map {
                if defaults::is_struct(field) {
                    collect(fields::child(&field.path, key), value, values);
                } else {
                    values.push(FieldValue { field, text: key.clone(), is_key: true });
                    collect(Some(field), value, values);
                }
            }
            return;
        }
    };
    values.push(FieldValue { field, text, is_key: false });
}

impl FieldValue {
    /// Reports whether the value in an error is a sign by itself: it is not a short or common word, such as a resource.
    fn is_sign(&self) -> bool {
        let is_large = self.text.parse().is_ok_and(|number: i64| number >= MIN_NUMBER);
        is_large
            || (self.text.len() >= MIN_VALUE
                && self.text.contains(|letter: char| !letter.is_ascii_digit())
                && !(self.is_key && is_word(&self.text))
                && self.text.parse::<bool>().is_err())
    }

    /// Length of the longest part of the value that the error contains, in bytes.
    fn quoted_length(&self, error: &str, words_in_quotes: bool) -> usize {
        self.quoted_part(error, words_in_quotes).map_or(0, str::len)
    }

    /// The longest part of the value that the error contains. `words_in_quotes`: words count only in quotes.
    fn quoted_part(&self, error: &str, words_in_quotes: bool) -> Option<&str> {
        let scheme = self.text.split_once("://").map(|(scheme, _)| scheme);
        let path = self.text.split_once("://").map(|(_, path)| path).filter(|path| path.starts_with('/'));
        // `memory` of the threshold `memory.available`.
        let resource = self.text.split_once('.').map(|(resource, _)| resource).filter(|_| self.is_key);
        let parts = [Some(self.text.as_str()), scheme, path, resource.filter(|_| !words_in_quotes)];
        let quoted = |text: &&str| !text.is_empty() && has_value(error, text, words_in_quotes);
        parts.into_iter().flatten().filter(quoted).max_by_key(|part| part.len())
    }

    /// Reports whether a value that kubelets check only at their start is invalid.
    fn is_invalid(&self) -> bool {
        let in_map = fields::lookup(&format!("{}{{}}", self.field.path));
        if self.is_key {
            return false;
        }
        match in_map.unwrap_or(self.field).format {
            Some(Format::Reservation | Format::Size) => {
                !quantity::is_quantity(&self.text) || self.text.starts_with('-')
            }
            Some(Format::EvictionThreshold | Format::EvictionReclaim) => match self.text.strip_suffix('%') {
                Some(number) => number.parse::<f64>().is_err(),
                None => !quantity::is_quantity(&self.text),
            },
            Some(Format::GracePeriod) => duration::nanoseconds(&self.text).is_err(),
            _ => self.text.starts_with('-') && self.text.contains(|letter: char| letter.is_ascii_digit()),
        }
    }

    /// Reports whether the value is the default of a version. Such a value is rarely the cause of an error.
    fn is_default(&self) -> bool {
        let is_same = |default: &Json| default.as_str().map_or_else(|| default.to_string(), str::to_owned) == self.text;
        self.field.default.iter().any(|(_, _, default)| is_same(default))
    }
}

/// The choice, or all fields if it is empty.
fn some_or(choice: Vec<&'static str>, all: Vec<&'static str>) -> Vec<&'static str> {
    if choice.is_empty() { all } else { choice }
}

/// Reports whether a text is a word without digits and punctuation.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Reports whether an error contains a value, not only as a part of another one.
fn has_value(error: &str, value: &str, words_in_quotes: bool) -> bool {
    let is_quote = |letter: char| matches!(letter, '"' | '\'' | '`');
    let is_inside = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    error.match_indices(value).any(|(at, _)| {
        let before = error.get(..at).and_then(|text| text.chars().next_back());
        let after = error.get(at + value.len()..).and_then(|text| text.chars().next());
        if !is_word(value) {
            return ![before, after].into_iter().flatten().any(is_inside);
        }
        match (before, after) {
            (Some(before), Some(after)) if words_in_quotes => is_quote(before) && is_quote(after),
            _ if words_in_quotes => false,
            // A word in a path is not the value.
            _ => ![before, after].into_iter().flatten().any(|letter| is_inside(letter) || letter == '/'),
        }
    })
}
