//! Builds the tree from a YAML stream's events as yaml.v2 decodes them (its `decode.go`) and sigs.k8s.io/yaml turns them
//! into JSON: only the first document counts, the last of several equal keys wins, a merge key overrides what stands
//! above it, keys become text, tags are obeyed. Aliases and merge keys are written out.
//!
//! Where other readers would read something else, that is a finding. Keys that are not text are one: no field of a
//! KubeletConfiguration is called like that, and quotes say what is meant.

use std::collections::{BTreeMap, BTreeSet};

use super::malformed::{TEMPLATE, explain};
use super::parse::{Ledger, Stop};
use super::resolve::{CORE, key_text, resolve_tagged};
use super::yaml::{Event, Events, Mark, Properties, Spanned};
use super::{
    Entry, MAX_DEPTH, MAX_KEY, Mapping, Node, Reading, Scalar, ScalarStyle, Value, canonical_text, key_too_long,
};
use crate::finding::{Finding, Place};

/// Reads the first document.
pub(super) fn read(text: &str, ledger: &mut Ledger) -> Result<Node, Stop> {
    let mut builder =
        Builder { text, events: Events::new(text), ledger, anchors: BTreeMap::new(), decodes: 1, aliased: 0 };
    let root = match builder.next()? {
        Spanned { event: Event::StreamEnd, .. } => None,
        _ => {
            let first = builder.next()?;
            Some(builder.node(first, 1)?.0)
        }
    };
    match root {
        // Nothing but comments, or `---` alone.
        Some(node) if !(node.is_null() && node.place.len == 0) => {
            builder.next()?;
            builder.rest();
            Ok(node)
        }
        _ => {
            let finding = Finding::error("empty-document", "the file holds no YAML document")
                .at(Place::whole_file(builder.ledger.file.clone()))
                .help("delete the file, or write what it is for");
            builder.ledger.stop(finding)
        }
    }
}

/// A name that aliases can refer to.
enum Anchor {
    /// Its value has begun and not ended.
    Open,
    /// A value, and what an alias of it costs.
    Value { node: Node, cost: Cost, height: usize },
}

/// What a value takes once aliases are written out.
#[derive(Clone, Copy)]
struct Cost {
    nodes: usize,
    bytes: usize,
    decodes: usize,
}

struct Builder<'a, 'l> {
    text: &'a str,
    events: Events<'a>,
    ledger: &'l mut Ledger,
    anchors: BTreeMap<String, Anchor>,
    /// Steps that yaml.v2 has taken so far, and those of them inside of aliases.
    decodes: usize,
    aliased: usize,
}

impl Builder<'_, '_> {
    /// The document has ended: the kubelet reads nothing of what follows.
    fn rest(&mut self) {
        let mark = match self.events.next() {
            Ok(Spanned { event: Event::StreamEnd, .. }) => return,
            Ok(spanned) => (spanned.start, spanned.end),
            Err(error) => (error.mark, error.mark),
        };
        let finding = Finding::error("second-document", "the file holds more than one YAML document")
            .at(self.place(mark.0, mark.1))
            .label("a second document starts here")
            .help("keep one document per file: the kubelet would read only the first");
        self.ledger.push(finding);
    }

    fn next(&mut self) -> Result<Spanned, Stop> {
        self.events.next().or_else(|error| {
            let told = explain(&error, self.text);
            let mut finding = Finding::error("malformed-yaml", format!("the file is not valid YAML: {}", told.message))
                .at(self.place(told.mark, told.mark));
            for (mark, words) in told.related {
                finding = finding.related(self.place(mark, mark), words);
            }
            finding.help = told.help;
            self.ledger.stop(finding)
        })
    }

    /// Reads one value that begins with an event, and says how many levels it has.
    fn node(&mut self, spanned: Spanned, depth: usize) -> Result<(Node, usize), Stop> {
        let place = self.place(spanned.start, spanned.end);
        if depth > MAX_DEPTH {
            self.ledger.too_deep(&place);
            return Ok((self.skip(spanned)?, 1));
        }
        self.decodes += 1;
        let before = self.spent();
        let (value, height, anchor) = match spanned.event {
            Event::Alias(name) => return self.alias(&name, place, depth),
            Event::Scalar { text, style, properties } => {
                self.ledger.charge(1, text.len(), &place)?;
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
                // The value itself was counted before.
                decodes: spent.decodes - before.decodes + 1,
            };
            // The kept copy takes memory as an alias does.
            self.ledger.charge(cost.nodes, cost.bytes, &node.place)?;
            self.anchors.insert(name, Anchor::Value { node: node.clone(), cost, height });
        }
        Ok((node, height))
    }

    fn spent(&self) -> Cost {
        Cost { nodes: self.ledger.nodes, bytes: self.ledger.bytes, decodes: self.decodes }
    }

    /// Begins a list or a map.
    fn open(&mut self, properties: &Properties, own: &str, place: &Place) -> Result<(), Stop> {
        self.ledger.charge(1, 0, place)?;
        // A tag has no effect here.
        if properties.tag.as_ref().is_some_and(|tag| tag.strip_prefix(CORE) != Some(own)) {
            self.unsupported(properties.tag.as_deref().unwrap_or_default(), place);
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
                self.unsupported(tag, place);
                resolve_tagged(tag, &text).or_else(|problem| self.malformed(&problem, place.clone()))
            }
            None => Ok(Scalar { text, style, tagged_text: false }),
        }
    }

    fn alias(&mut self, name: &str, place: Place, depth: usize) -> Result<(Node, usize), Stop> {
        let (cost, height) = match self.anchors.get(name) {
            Some(Anchor::Value { cost, height, .. }) => (*cost, *height),
            Some(Anchor::Open) => {
                let message = "an alias stands inside the very value that it refers to";
                return self.ledger.stop(Finding::error("recursive-alias", message).at(place));
            }
            None => {
                let message = format!("the file is not valid YAML: there is no anchor `{name}` above this alias");
                let finding = Finding::error("malformed-yaml", message).at(place);
                return self.ledger.stop(finding.help("put the value in quotes if it is no alias"));
            }
        };
        self.decodes = self.decodes.saturating_add(cost.decodes);
        self.aliased = self.aliased.saturating_add(cost.decodes);
        // yaml.v2's bound, which holds up to 400,000 steps; a document of more is beyond ours.
        if self.aliased > 100 && self.decodes > 1000 && self.aliased as f64 / self.decodes as f64 > 0.99 {
            let message = "nearly all of the document comes from aliases, which the kubelet does not read";
            return self.ledger.stop(Finding::error("excessive-aliases", message).at(place));
        }
        self.ledger.charge(cost.nodes, cost.bytes, &place)?;
        let Some(Anchor::Value { node, .. }) = self.anchors.get(name) else { return Err(Stop) };
        if depth + height - 1 > MAX_DEPTH {
            let cut = cut(node, MAX_DEPTH + 1 - depth);
            self.ledger.too_deep(&place);
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
            self.ledger.check_scalar(&node);
            height = height.max(below + 1);
            items.push(node);
        }
    }

    fn entries(&mut self, depth: usize) -> Result<(Mapping, usize), Stop> {
        let (mut map, mut height) = (Mapping::new(), 1);
        // Keys that a merge brought in, and where a repeated key stood first.
        let (mut merged, mut firsts) = (BTreeSet::new(), BTreeMap::new());
        loop {
            let spanned = self.next()?;
            if spanned.event == Event::MappingEnd {
                return Ok((map, height));
            }
            let merges = is_merge_key(&spanned.event);
            // A key is no deeper than its map; one that is a map itself stops the reading, but only behind its own end.
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
            self.ledger.check_scalar(&value);
            let Some(name) = self.key(&key)? else { continue };
            let entry = Entry { key_place: key.place, value, earlier: Vec::new() };
            if let Some(before) = map.get(&name)
                && !merged.remove(&name)
            {
                let first = firsts.entry(name.clone()).or_insert_with(|| before.key_place.clone());
                self.ledger.duplicate(&name, entry.key_place.clone(), first.clone());
            }
            map.insert(name, entry);
        }
    }

    /// Writes out a merge key: of several merged maps the earlier wins, and all of them override what the map holds so
    /// far. Other readers let the map's own keys win, so that a difference above the merge key is a finding.
    fn merge_key(
        &mut self,
        map: &mut Mapping,
        merged: &mut BTreeSet<String>,
        place: &Place,
        value: Node,
        written_out: bool,
    ) {
        // yaml.v2 steps over the key.
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
                _ => self.ledger.refuse(
                    Finding::error("bad-merge-key", "`<<` takes a map or a list of maps")
                        .at(source.place)
                        .help("name a map by an alias, as in `<<: *defaults`"),
                    super::Unread::Malformed,
                ),
            }
        }
        for (key, entry) in brought {
            if let Some(own) = map.get(&key)
                && own.key_place.offset < place.offset
                && !own.value.same_content(&entry.value)
            {
                let message = format!("`<<` brings in {key:?}, which the map already sets above it");
                let finding = Finding::error("ambiguous-merge-key", message)
                    .at(place.clone())
                    .related(own.key_place.clone(), "set here")
                    .help("put `<<` first in its map: readers disagree on which value counts");
                self.ledger.push(finding);
            }
            merged.insert(key.clone());
            map.insert(key, entry);
        }
    }

    /// A key as text; `None` when the kubelet does not read the document for it.
    fn key(&mut self, key: &Node) -> Result<Option<String>, Stop> {
        let Value::Scalar(scalar) = &key.value else {
            let message = format!("a key must be text, and this one is {}", key.describe());
            let mut finding = Finding::error("malformed-yaml", message).at(key.place.clone());
            if self.text.get(..key.place.offset).is_some_and(|before| before.ends_with('{')) {
                finding = finding.help(TEMPLATE);
            }
            return self.ledger.stop(finding);
        };
        let (reading, ambiguity) = (scalar.read(), scalar.ambiguity());
        let name = key_text(&reading);
        if let (Reading::Text(text), None) = (&reading, &ambiguity) {
            if canonical_text(text).len() > MAX_KEY {
                self.ledger.push(Finding::error("key-too-long", key_too_long()).at(key.place.clone()));
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
            Some(_) => self.ledger.push(finding("key-not-text")),
            None => self.ledger.refuse(finding("malformed-yaml"), super::Unread::Malformed),
        }
        Ok(name)
    }

    /// Reads a value that is too deep for the tree, whose content no field can hold. What would keep the kubelet from
    /// reading the document is kept: a number that is not finite.
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
                    self.ledger.charge(1, text.len(), &place)?;
                    let scalar = self.scalar(text, style, properties.tag.as_deref(), &place)?;
                    let node = Node { value: Value::Scalar(scalar), place };
                    self.skipped_anchor(properties.anchor, &node);
                    node
                }
                Event::SequenceStart(properties) | Event::MappingStart(properties) => {
                    open += 1;
                    self.ledger.charge(1, 0, &place)?;
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

    fn unsupported(&mut self, tag: &str, place: &Place) {
        let written = tag.strip_prefix(CORE).map_or_else(|| tag.to_owned(), |name| format!("!!{name}"));
        let finding = Finding::error("unsupported-tag", format!("the tag `{written}` is not supported here"))
            .at(place.clone())
            .help("write the value without a tag, in quotes if it is text");
        self.ledger.push(finding);
    }

    fn malformed<T>(&mut self, problem: &str, place: Place) -> Result<T, Stop> {
        self.ledger.stop(Finding::error("malformed-yaml", format!("the file is not valid YAML: {problem}")).at(place))
    }

    fn place(&self, start: Mark, end: Mark) -> Place {
        Place {
            file: self.ledger.file.clone(),
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

/// The upper levels of a value; what is below them becomes null.
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
