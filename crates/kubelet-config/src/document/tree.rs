//! The tree builder for YAML, from parser events, with the rules of yaml.v2 (its `decode.go`) and sigs.k8s.io/yaml.
//! Only the first document is read. The last of several equal keys wins. A merge key overrides the entries above it.
//! Keys become text. Aliases and merge keys are expanded.
//!
//! The builder adds findings where other readers would read something else, and for keys that are not text. No field
//! of a KubeletConfiguration has such a name, and quotes make the meaning explicit.

use std::collections::{BTreeMap, BTreeSet};

use super::malformed::{TEMPLATE, explain};
use super::parse::{ParseContext, Stop};
use super::resolve::{CORE, key_text, resolve_tagged};
use super::yaml::{Event, Events, Mark, Properties, Spanned};
use super::{
    Entry, MAX_DEPTH, MAX_KEY, Mapping, Node, Reading, Scalar, ScalarStyle, Value, canonical_text, key_too_long,
};
use crate::finding::{Finding, Place};

/// Reads the first document.
pub(super) fn read(text: &str, context: &mut ParseContext) -> Result<Node, Stop> {
    let mut builder =
        Builder { text, events: Events::new(text), context, anchors: BTreeMap::new(), decodes: 1, aliased: 0 };
    let root = match builder.next()? {
        Spanned { event: Event::StreamEnd, .. } => None,
        _ => {
            let first = builder.next()?;
            Some(builder.node(first, 1)?.0)
        }
    };
    match root {
        // A null of zero length means that the text has only comments, or `---` alone.
        Some(node) if !(node.is_null() && node.place.len == 0) => {
            builder.next()?;
            builder.report_second_document();
            Ok(node)
        }
        _ => {
            let finding = Finding::error("empty-document", "the file contains no YAML document")
                .at(Place::whole_file(builder.context.file.clone()))
                .help("delete the file, or write its content");
            builder.context.stop(finding)
        }
    }
}

/// The state of an anchor.
enum Anchor {
    /// The anchored value is incomplete.
    Open,
    /// A complete value, and the cost of an alias to it.
    Value { node: Node, cost: Cost, height: usize },
}

/// The cost of a value with aliases expanded.
#[derive(Clone, Copy)]
struct Cost {
    nodes: usize,
    bytes: usize,
    decodes: usize,
}

struct Builder<'a, 'l> {
    text: &'a str,
    events: Events<'a>,
    context: &'l mut ParseContext,
    anchors: BTreeMap<String, Anchor>,
    /// Decoding steps that yaml.v2 has taken so far.
    decodes: usize,
    /// The decoding steps inside aliases.
    aliased: usize,
}

impl Builder<'_, '_> {
    /// Reports content after the first document, which the kubelet ignores.
    fn report_second_document(&mut self) {
        let mark = match self.events.next() {
            Ok(Spanned { event: Event::StreamEnd, .. }) => return,
            Ok(spanned) => (spanned.start, spanned.end),
            Err(error) => (error.mark, error.mark),
        };
        let finding = Finding::error("second-document", "the file contains more than one YAML document")
            .at(self.place(mark.0, mark.1))
            .label("the second document starts here")
            .help("keep one document per file: the kubelet reads only the first");
        self.context.push(finding);
    }

    fn next(&mut self) -> Result<Spanned, Stop> {
        self.events.next().or_else(|error| {
            let explanation = explain(&error, self.text);
            let mut finding =
                Finding::error("malformed-yaml", format!("the file is not valid YAML: {}", explanation.message))
                    .at(self.place(explanation.mark, explanation.mark));
            for (mark, label) in explanation.related {
                finding = finding.related(self.place(mark, mark), label);
            }
            finding.help = explanation.help;
            self.context.stop(finding)
        })
    }

    /// Reads the value that starts with an event. Returns the value and its number of levels.
    fn node(&mut self, spanned: Spanned, depth: usize) -> Result<(Node, usize), Stop> {
        let place = self.place(spanned.start, spanned.end);
        if depth > MAX_DEPTH {
            self.context.too_deep(&place);
            return Ok((self.skip(spanned)?, 1));
        }
        self.decodes += 1;
        let before = self.spent();
        let (value, height, anchor) = match spanned.event {
            Event::Alias(name) => return self.alias(&name, place, depth),
            Event::Scalar { text, style, properties } => {
                self.context.charge(1, text.len(), &place)?;
                let scalar = self.scalar(text, style, properties.tag.as_deref(), &place)?;
                (Value::Scalar(scalar), 1, properties.anchor)
            }
            Event::SequenceStart(properties) => {
                self.open(&properties, "seq", &place)?;
                let (items, height) = self.items(depth)?;
                (Value::Sequence(items), height, properties.anchor)
            }
            Event::MappingStart(properties) => {
                self.open(&properties, "map", &place)?;
                let (map, height) = self.entries(depth)?;
                (Value::Mapping(map), height, properties.anchor)
            }
            _ => return self.malformed("the file is not valid YAML", place),
        };
        let node = Node { value, place };
        if let Some(name) = anchor {
            let spent = self.spent();
            let cost = Cost {
                nodes: spent.nodes - before.nodes,
                bytes: spent.bytes - before.bytes,
                // The value itself was counted above.
                decodes: spent.decodes - before.decodes + 1,
            };
            // The stored copy takes as much memory as an alias.
            self.context.charge(cost.nodes, cost.bytes, &node.place)?;
            self.anchors.insert(name, Anchor::Value { node: node.clone(), cost, height });
        }
        Ok((node, height))
    }

    fn spent(&self) -> Cost {
        Cost { nodes: self.context.nodes, bytes: self.context.bytes, decodes: self.decodes }
    }

    /// Starts a list or a map.
    fn open(&mut self, properties: &Properties, own: &str, place: &Place) -> Result<(), Stop> {
        self.context.charge(1, 0, place)?;
        // A tag has no effect on a list or map.
        if properties.tag.as_ref().is_some_and(|tag| tag.strip_prefix(CORE) != Some(own)) {
            self.report_unsupported_tag(properties.tag.as_deref().unwrap_or_default(), place);
        }
        if let Some(name) = &properties.anchor {
            self.anchors.insert(name.clone(), Anchor::Open);
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, tag: Option<&str>, place: &Place) -> Result<Scalar, Stop> {
        match tag {
            Some(tag) if tag.strip_prefix(CORE) == Some("str") => Ok(Scalar { text, style, tagged_text: true }),
            Some(tag) => {
                self.report_unsupported_tag(tag, place);
                resolve_tagged(tag, &text).or_else(|problem| self.malformed(&problem, place.clone()))
            }
            None => Ok(Scalar { text, style, tagged_text: false }),
        }
    }

    fn alias(&mut self, name: &str, place: Place, depth: usize) -> Result<(Node, usize), Stop> {
        let (cost, height) = match self.anchors.get(name) {
            Some(Anchor::Value { cost, height, .. }) => (*cost, *height),
            Some(Anchor::Open) => {
                let message = "an alias refers to a value that contains the alias";
                return self
                    .context
                    .stop(Finding::error("recursive-alias", message).at(place).help("write the value instead"));
            }
            None => {
                let message = format!("the file is not valid YAML: no anchor `{name}` precedes this alias");
                let finding = Finding::error("malformed-yaml", message).at(place);
                return self.context.stop(finding.help("put the value in quotes if it is not an alias"));
            }
        };
        self.decodes = self.decodes.saturating_add(cost.decodes);
        self.aliased = self.aliased.saturating_add(cost.decodes);
        // yaml.v2's limit for up to 400,000 steps. Documents with more steps exceed this crate's own limits.
        if self.aliased > 100 && self.decodes > 1000 && self.aliased as f64 / self.decodes as f64 > 0.99 {
            let message = "nearly the whole document comes from aliases, and the kubelet refuses such documents";
            return self.context.stop(Finding::error("excessive-aliases", message).at(place));
        }
        self.context.charge(cost.nodes, cost.bytes, &place)?;
        let Some(Anchor::Value { node, .. }) = self.anchors.get(name) else { return Err(Stop) };
        if depth + height - 1 > MAX_DEPTH {
            let cut = cut(node, MAX_DEPTH + 1 - depth);
            self.context.too_deep(&place);
            return Ok((cut, MAX_DEPTH + 1 - depth));
        }
        Ok((node.clone(), height))
    }

    fn items(&mut self, depth: usize) -> Result<(Vec<Node>, usize), Stop> {
        let (mut items, mut height) = (Vec::new(), 1);
        loop {
            let spanned = self.next()?;
            if spanned.event == Event::SequenceEnd {
                return Ok((items, height));
            }
            let (node, below) = self.node(spanned, depth + 1)?;
            self.context.check_scalar(&node);
            height = height.max(below + 1);
            items.push(node);
        }
    }

    fn entries(&mut self, depth: usize) -> Result<(Mapping, usize), Stop> {
        let (mut map, mut height) = (Mapping::new(), 1);
        // `merged` holds keys from merge keys; `firsts` holds the first place of each duplicate key.
        let (mut merged, mut firsts) = (BTreeSet::new(), BTreeMap::new());
        loop {
            let spanned = self.next()?;
            if spanned.event == Event::MappingEnd {
                return Ok((map, height));
            }
            let merges = is_merge_key(&spanned.event);
            // A scalar key is at the level of its map. A key that is a collection stops parsing, but only after its
            // end.
            let key_depth = if matches!(spanned.event, Event::Scalar { .. }) { depth } else { depth + 1 };
            let (key, _) = self.node(spanned, key_depth)?;
            let spanned = self.next()?;
            let written_out = !matches!(spanned.event, Event::Alias(_));
            let (value, below) = self.node(spanned, depth + 1)?;
            height = height.max(below + 1);
            if merges {
                self.merge_key(&mut map, &mut merged, &key.place, value, written_out);
                continue;
            }
            self.context.check_scalar(&value);
            let Some(name) = self.key(&key)? else { continue };
            let entry = Entry { key_place: key.place, value, earlier: Vec::new() };
            if let Some(before) = map.get(&name)
                && !merged.remove(&name)
            {
                let first = firsts.entry(name.clone()).or_insert_with(|| before.key_place.clone());
                self.context.duplicate(&name, entry.key_place.clone(), first.clone());
            }
            map.insert(name, entry);
        }
    }

    /// Expands a merge key. The first of several merged maps wins, and all of them override the entries above. Other
    /// readers let the map's own keys win; a difference is therefore a finding.
    fn merge_key(
        &mut self,
        map: &mut Mapping,
        merged: &mut BTreeSet<String>,
        place: &Place,
        value: Node,
        written_out: bool,
    ) {
        // yaml.v2 does not count the key.
        self.decodes -= 1;
        let sources = match value.value {
            Value::Sequence(items) if written_out => {
                self.decodes -= 1;
                items
            }
            value_ => vec![Node { value: value_, place: value.place }],
        };
        let mut brought = Mapping::new();
        for source in sources {
            match source.value {
                Value::Mapping(source) => {
                    for (key, entry) in source {
                        brought.entry(key).or_insert(entry);
                    }
                }
                _ => self.context.refuse(
                    Finding::error("bad-merge-key", "`<<` requires a map or a list of maps")
                        .at(source.place)
                        .help("refer to a map by an alias, as in `<<: *defaults`"),
                    super::Unread::Malformed,
                ),
            }
        }
        for (key, entry) in brought {
            if let Some(own) = map.get(&key)
                && own.key_place.offset < place.offset
                && !own.value.same_content(&entry.value)
            {
                let message = format!("`<<` merges {key:?}, which the map sets above");
                let finding = Finding::error("ambiguous-merge-key", message)
                    .at(place.clone())
                    .related(own.key_place.clone(), "set here")
                    .help("put `<<` first in its map: readers disagree on which value applies");
                self.context.push(finding);
            }
            merged.insert(key.clone());
            map.insert(key, entry);
        }
    }

    /// Returns a key as text. `None` if the kubelet refuses the document because of a scalar key; a list or map as
    /// key stops parsing.
    fn key(&mut self, key: &Node) -> Result<Option<String>, Stop> {
        let Value::Scalar(scalar) = &key.value else {
            let message = format!("a key must be text, not {}", key.describe());
            let mut finding = Finding::error("malformed-yaml", message).at(key.place.clone());
            if self.text.get(..key.place.offset).is_some_and(|before| before.ends_with('{')) {
                finding = finding.help(TEMPLATE);
            }
            return self.context.stop(finding);
        };
        let (reading, ambiguity) = (scalar.read(), scalar.ambiguity());
        let name = key_text(&reading);
        if let (Reading::Text(text), None) = (&reading, &ambiguity) {
            if canonical_text(text).len() > MAX_KEY {
                self.context.push(Finding::error("key-too-long", key_too_long()).at(key.place.clone()));
            }
            return Ok(name);
        }
        let what = match ambiguity {
            Some(ambiguity) => ambiguity.problem,
            None => format!("`{}` is {}", scalar.text, reading.describe()),
        };
        let finding = |code| {
            Finding::error(code, format!("a key must be text: {what}"))
                .at(key.place.clone())
                .help(format!("write {}", super::canonical::quoted(&scalar.text)))
        };
        match name {
            Some(_) => self.context.push(finding("key-not-text")),
            None => self.context.refuse(finding("malformed-yaml"), super::Unread::Malformed),
        }
        Ok(name)
    }

    /// Reads a value that is too deep for the tree; no field holds such a value. Returns null, or the last number
    /// that is not finite, because the kubelet refuses a document with one.
    fn skip(&mut self, first: Spanned) -> Result<Node, Stop> {
        let place = self.place(first.start, first.end);
        let mut kept = Node { value: Value::Scalar(Scalar::plain("")), place };
        let (mut spanned, mut open) = (first, 0_usize);
        loop {
            let place = self.place(spanned.start, spanned.end);
            self.decodes += 1;
            let node = match spanned.event {
                Event::Alias(name) => self.alias(&name, place, MAX_DEPTH)?.0,
                Event::Scalar { text, style, properties } => {
                    self.context.charge(1, text.len(), &place)?;
                    let scalar = self.scalar(text, style, properties.tag.as_deref(), &place)?;
                    let node = Node { value: Value::Scalar(scalar), place };
                    self.skipped_anchor(properties.anchor, &node);
                    node
                }
                Event::SequenceStart(properties) | Event::MappingStart(properties) => {
                    open += 1;
                    self.context.charge(1, 0, &place)?;
                    let node = Node { value: Value::Scalar(Scalar::plain("")), place };
                    self.skipped_anchor(properties.anchor, &node);
                    node
                }
                _ => {
                    open = open.saturating_sub(1);
                    Node { value: Value::Scalar(Scalar::plain("")), place }
                }
            };
            if matches!(node.reading(), Some(Reading::Float(value)) if !value.is_finite()) {
                kept = node;
            }
            if open == 0 {
                return Ok(kept);
            }
            spanned = self.next()?;
        }
    }

    fn skipped_anchor(&mut self, anchor: Option<String>, node: &Node) {
        if let Some(name) = anchor {
            let cost = Cost { nodes: 1, bytes: 0, decodes: 1 };
            self.anchors.insert(name, Anchor::Value { node: node.clone(), cost, height: 1 });
        }
    }

    fn report_unsupported_tag(&mut self, tag: &str, place: &Place) {
        let written = tag.strip_prefix(CORE).map_or_else(|| tag.to_owned(), |name| format!("!!{name}"));
        let finding = Finding::error("unsupported-tag", format!("the tag `{written}` is not supported"))
            .at(place.clone())
            .help("remove the tag, and put the value in quotes if it is text");
        self.context.push(finding);
    }

    fn malformed<T>(&mut self, problem: &str, place: Place) -> Result<T, Stop> {
        self.context.stop(Finding::error("malformed-yaml", format!("the file is not valid YAML: {problem}")).at(place))
    }

    fn place(&self, start: Mark, end: Mark) -> Place {
        Place {
            file: self.context.file.clone(),
            offset: start.offset,
            len: end.offset.saturating_sub(start.offset),
            line: start.line,
            column: start.column,
        }
    }
}

fn is_merge_key(event: &Event) -> bool {
    match event {
        Event::Scalar { text, style, properties } => {
            let by_tag = properties.tag.as_deref().map(|tag| tag == "!" || tag.strip_prefix(CORE) == Some("merge"));
            text == "<<" && by_tag.unwrap_or(*style == ScalarStyle::Plain)
        }
        _ => false,
    }
}

/// Returns the upper levels of a value; deeper lists and maps become null.
fn cut(node: &Node, levels: usize) -> Node {
    let value = match &node.value {
        Value::Scalar(scalar) => Value::Scalar(scalar.clone()),
        _ if levels == 0 => Value::Scalar(Scalar::plain("")),
        Value::Sequence(items) => Value::Sequence(items.iter().map(|item| cut(item, levels - 1)).collect()),
        Value::Mapping(map) => Value::Mapping(
            map.iter()
                .map(|(key, entry)| {
                    let value = cut(&entry.value, levels - 1);
                    (key.clone(), Entry { key_place: entry.key_place.clone(), value, earlier: Vec::new() })
                })
                .collect(),
        ),
    };
    Node { value, place: node.place.clone() }
}
