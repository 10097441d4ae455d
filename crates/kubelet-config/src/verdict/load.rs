//! Stage 1: the decoding of a file.
//!
//! All refusals are reported, although the kubelet stops at the first. Only a wrong `apiVersion` or `kind` ends the
//! check: the fields of such a document are not checked. A text that is neither YAML nor JSON has no document and is
//! not checked here.

use jiff::civil::Date;

use crate::document::{Document, Entry, Mapping, Node, Reading, Syntax, Value};
use crate::fields::{self, Field, FieldType, join};
use crate::values::{duration, quantity, units};
use crate::verdict::Refusal;
use crate::verdict::refusals::Refusals;
use crate::{API_VERSION, KIND, Minor};

#[cfg(test)]
mod tests;

/// The only field with a time (`metav1.Time`).
const TIME_FIELD: &str = "registerWithTaints[].timeAdded";

/// The last minor that decodes with json-iterator (apimachinery `serializer/json`), which misses some numbers out of
/// range.
const LAST_JSONITER: Minor = Minor(22);

/// Returns the reasons why a kubelet of this version cannot decode a document. Empty if it can.
pub(super) fn check(document: &Document, minor: Minor) -> Vec<Refusal> {
    let mut load = Load { minor, syntax: document.syntax, refusals: Refusals::default() };
    if document.syntax == Syntax::Yaml {
        load.check_finite(&document.root, "");
    }
    // The kubelet decodes null as an empty map.
    if document.root.is_null() {
        load.check_header(&Mapping::new(), &document.root);
        return load.refusals.into_list();
    }
    let Value::Mapping(map) = &document.root.value else {
        let message = format!("the file must be a map, not {}", document.root.describe());
        load.refuse("top-level-map", String::new(), &document.root, message)
            .help(format!("write apiVersion: {} and kind: {}", API_VERSION, KIND));
        return load.refusals.into_list();
    };
    if load.check_header(map, &document.root) {
        load.check_object(map, "", "");
    }
    load.refusals.into_list()
}

/// Returns the reasons why a kubelet of this version cannot decode a document as an untyped map, as it reads a drop-in:
/// numbers that are not finite, and the given fields with another text. The names are matched exactly, because a map has
/// no fields.
pub(super) fn check_untyped(document: &Document, minor: Minor, header: &[(&'static str, &str, &str)]) -> Vec<Refusal> {
    let mut load = Load { minor, syntax: document.syntax, refusals: Refusals::default() };
    if document.syntax == Syntax::Yaml {
        load.check_finite(&document.root, "");
    }
    for (rule, name, wanted) in header {
        let found = document.root.get(name);
        let message = match found.and_then(Node::text) {
            Some(text) if text == *wanted || (wanted.is_empty() && !text.is_empty()) => continue,
            Some(text) => format!("{name} is {text:?}; the kubelet accepts only {wanted} in a drop-in"),
            None => format!("{name} is missing, which a drop-in needs"),
        };
        let node = found.unwrap_or(&document.root);
        load.refuse(rule, (*name).to_owned(), node, message).help(format!("write {name}: {wanted}"));
    }
    load.refusals.into_list()
}

struct Load {
    minor: Minor,
    syntax: Syntax,
    refusals: Refusals,
}

/// The shape of a value in JSON. The kubelet converts every document to JSON before decoding.
enum Shape<'n> {
    Null,
    Bool,
    /// A number in JSON's notation.
    Number(String),
    Text(&'n str),
    List(&'n [Node]),
    Map(&'n Mapping),
}

impl Load {
    /// Adds a refusal, if the rule applies to this version.
    fn refuse(&mut self, rule: &'static str, field: String, node: &Node, message: String) -> &mut Refusals {
        self.refusals.refuse(rule, self.minor, field, &node.place, message)
    }

    /// Refuses numbers that are not finite. The conversion from YAML to JSON fails for them, even in unknown fields.
    fn check_finite(&mut self, node: &Node, path: &str) {
        match &node.value {
            Value::Mapping(map) => {
                map.iter().for_each(|(key, entry)| self.check_finite(&entry.value, &join(path, key)))
            }
            Value::Sequence(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.check_finite(item, &format!("{path}[{at}]"));
                }
            }
            Value::Scalar(scalar) => {
                if matches!(scalar.read(), Reading::Float(value) if !value.is_finite()) {
                    let what = if path.is_empty() { "the file" } else { path };
                    let message = format!("{what} is {}, which JSON cannot represent as a number", scalar.text);
                    self.refuse("finite-numbers", path.to_owned(), node, message)
                        .help(format!("write a finite number, or the text in quotes: {:?}", scalar.text));
                }
            }
        }
    }

    fn check_object(&mut self, map: &Mapping, table: &str, path: &str) {
        for (key, entry) in map {
            if table.is_empty() && (key == "apiVersion" || key == "kind") {
                continue;
            }
            if let Some(field) = fields::child(table, key).filter(|field| field.is_known_to(self.minor)) {
                for value in entry.earlier.iter().chain([&entry.value]) {
                    self.check_value(value, field, join(path, key));
                }
            }
        }
    }

    fn check_value(&mut self, node: &Node, field: &'static Field, path: String) {
        let Some(types) = field.types.at(self.minor) else { return };
        let allows = |one: FieldType| types.contains(&one);
        match self.shape(node) {
            Shape::Null if field.allows_null(self.minor) => {}
            Shape::Null => {
                let message = format!("{path} is null, which is not a duration");
                self.refuse("durations", path, node, message)
                    .help("omit the key for the default, or write a duration such as 30s");
            }
            Shape::Bool if allows(FieldType::Boolean) => {}
            Shape::Map(map) if allows(FieldType::Object) => self.check_object(map, &field.path, &path),
            Shape::List(items) if allows(FieldType::Array) => {
                let Some(of) = fields::items(&field.path) else { return };
                for (at, item) in items.iter().enumerate() {
                    self.check_value(item, of, format!("{path}[{at}]"));
                }
            }
            Shape::Number(number) if allows(FieldType::Integer) => self.check_integer(node, field, path, &number),
            Shape::Number(number) if allows(FieldType::Number) => {
                if !number.parse::<f64>().is_ok_and(f64::is_finite) {
                    let message = format!("{path} is {number}, which is out of range");
                    self.refuse("number-bounds", path, node, message).help("write a finite number");
                }
            }
            Shape::Number(number) if allows(FieldType::Quantity) => self.check_quantity(node, path, &number),
            Shape::Text(text) if allows(FieldType::Quantity) => self.check_quantity(node, path, text),
            Shape::Text(text) if allows(FieldType::Duration) => self.check_duration(node, path, text),
            Shape::Text(text) if allows(FieldType::String) => {
                if field.path == TIME_FIELD && !is_rfc3339(text) {
                    let message = format!("{path} is {text:?}, which is not a time");
                    self.refuse("times", path, node, message).help("remove it: the kubelet refuses every time");
                }
            }
            shape => {
                let expected = types.iter().map(|one| one.phrase()).collect::<Vec<_>>().join(" or ");
                let message = format!("{path} must be {expected}, not {}", node.describe());
                let help = type_fix(&shape, node, &path, types);
                let refused = self.refuse("field-types", path, node, message);
                if let Some(help) = help {
                    refused.help(help);
                }
            }
        }
    }

    fn check_integer(&mut self, node: &Node, field: &Field, path: String, number: &str) {
        let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!("{path} must be a whole number, not {number}");
            let refused = self.refuse("field-types", path, node, message);
            if let Some(whole) = node.reading().and_then(|reading| reading.whole()) {
                refused.help(format!("write {whole}: JSON allows neither a point nor an exponent in a whole number"));
            }
            return;
        }
        let (least, largest) = (i128::from(field.min_value()), i128::from(field.max_value()));
        let bits = if largest > i128::from(u32::MAX) { 64 } else { 32 };
        let value = if self.minor <= LAST_JSONITER { jsoniter(sign, digits, bits) } else { number.parse().ok() };
        let within = value.is_some_and(|value| (least..=largest).contains(&value));
        // Go allows no sign in an unsigned number, not even -0.
        if !within || (least == 0 && sign == "-") {
            let message = format!("{path} is {number}; the field allows {least} to {largest}");
            let closest = if sign == "-" { least } else { largest };
            self.refuse("number-bounds", path, node, message).help(format!("the closest allowed value is {closest}"));
        }
    }

    fn check_duration(&mut self, node: &Node, path: String, text: &str) {
        if let Err(problem) = duration::nanoseconds(text) {
            let message = format!("{path} is {text:?}, which {}", problem.split(';').next().unwrap_or(problem));
            self.refuse("durations", path, node, message).help(units::duration_help(text));
        }
    }

    fn check_quantity(&mut self, node: &Node, path: String, text: &str) {
        // Blanks are trimmed from the JSON text, in which a tab or a line break is an escape and stays.
        let text = text.trim_matches(|c: char| {
            c.is_whitespace() && !c.is_ascii_control() && !matches!(c, '\u{2028}' | '\u{2029}')
        });
        if let Err(problem) = quantity::read(text) {
            let problem = problem.to_string();
            let what = problem.split("; ").next().unwrap_or(&problem);
            let message = format!("{path} is {text:?}, which {what}");
            self.refuse("quantities", path, node, message).help(units::quantity_help(text, "1Gi"));
        }
    }

    fn shape<'n>(&self, node: &'n Node) -> Shape<'n> {
        match &node.value {
            Value::Mapping(map) => Shape::Map(map),
            Value::Sequence(items) => Shape::List(items),
            Value::Scalar(scalar) => match scalar.read() {
                Reading::Null => Shape::Null,
                Reading::Bool(_) => Shape::Bool,
                _ if self.syntax == Syntax::Json && scalar.plain => Shape::Number(scalar.text.clone()),
                Reading::Int(value) => Shape::Number(value.to_string()),
                Reading::Float(value) => Shape::Number(json_number(value)),
                Reading::Text(text) => Shape::Text(text),
            },
        }
    }
}

/// Returns the correct notation of a value with the wrong type, if it is obvious.
fn type_fix(shape: &Shape<'_>, node: &Node, path: &str, types: &[FieldType]) -> Option<String> {
    let allows = |one: FieldType| types.contains(&one);
    let Value::Scalar(scalar) = &node.value else { return None };
    match shape {
        Shape::Number(_) if allows(FieldType::Duration) => Some(units::seconds_help(&scalar.text)),
        Shape::Number(number) if allows(FieldType::String) => {
            let with_unit = number.parse().ok().and_then(|number| units::number_help(path, number));
            with_unit.or_else(|| Some(format!("write {:?}, in quotes", scalar.text)))
        }
        Shape::Bool if allows(FieldType::String) => Some(format!("write {:?}, in quotes", scalar.text)),
        Shape::Text(text) => {
            let plain = crate::document::Scalar::plain(*text);
            let fits = match plain.read() {
                // Unquoted `off` would be ambiguous.
                Reading::Bool(value) if allows(FieldType::Boolean) => {
                    return Some(format!("write {value}, without quotes"));
                }
                Reading::Int(_) => allows(FieldType::Integer) || allows(FieldType::Number),
                Reading::Float(_) => allows(FieldType::Number),
                _ => false,
            };
            fits.then(|| format!("write {text}, without quotes"))
        }
        _ => None,
    }
}

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

/// Formats a float64 as Go does on the way from YAML to JSON (`encode.go`, floatEncoder): with an exponent below 1e-6
/// and from 1e21 on.
pub(super) fn json_number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => text,
    }
}

/// Parses a whole number as json-iterator does for a field of 32 or 64 bits (`iter_int.go`, readUint32 and
/// readUint64). After each digit, json-iterator only checks whether the number became smaller. It therefore reads
/// some numbers far out of range as other numbers. `None` if it detects the overflow.
pub(super) fn jsoniter(sign: &str, digits: &str, bits: u32) -> Option<i128> {
    let range: u128 = 1 << bits;
    let largest_safe = (range - 1) / 10 - 1;
    let mut value: u128 = 0;
    for digit in digits.bytes() {
        let next = (value * 10 + u128::from(digit.wrapping_sub(b'0'))) % range;
        if value > largest_safe && next < value {
            return None;
        }
        value = next;
    }
    let value = i128::try_from(value).ok()?;
    Some(if sign == "-" { -value } else { value })
}

/// Reports whether Go's `time.Parse(time.RFC3339, text)` accepts a text: `2006-01-02T15:04:05Z`, with an optional
/// fraction after a point or comma, and `Z` or an offset up to 24:60. The hour may have one digit.
pub(super) fn is_rfc3339(text: &str) -> bool {
    parse_time(text).is_some()
}

fn parse_time(text: &str) -> Option<()> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = time_parts(date, '-', [4, 2, 2])?;
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(time.len());
    let (clock, rest) = time.split_at(end);
    let hours = clock.find(':')?;
    let [hour, minute, second] = time_parts(clock, ':', [hours.clamp(1, 2), 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let zone = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return None;
            }
            zone
        }
        None => rest,
    };
    if zone == "Z" {
        return Some(());
    }
    let [hours, minutes] = time_parts(zone.strip_prefix(['+', '-'])?, ':', [2, 2])?;
    (hours <= 24 && minutes <= 60).then_some(())
}

/// Parses numbers with fixed digit counts.
fn time_parts<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u16; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}
