//! The composer: builds the tree from events, with the rules of yaml.v2 (its `decode.go`) and sigs.k8s.io/yaml. Only
//! the first document is read. The last of several equal keys wins. A merge key overrides the entries above it. Keys
//! become text. Aliases and merge keys are expanded.

use std::collections::{BTreeMap, BTreeSet};

use crate::events::{Event, Events, Mark, Spanned};
use crate::scalar::{CORE, key_text, resolve_tagged};
use crate::{Entry, Limits, Node, Parsed, Problem, ProblemKind, Reading, Scalar, Span, Value};

/// Greater depths would let the destructor of a tree exhaust the stack.
const MAX_DEPTH: usize = 256;

type Mapping = BTreeMap<String, Entry>;

pub(crate) fn parse(text: &str, limits: &Limits) -> Parsed {
    let mut composer = Composer {
        events: Events::new(text),
        limits: Limits { depth: limits.depth.min(MAX_DEPTH), ..*limits },
        problems: Vec::new(),
        ambiguous: BTreeSet::new(),
        deep: false,
        anchors: BTreeMap::new(),
        spent: Cost { values: 0, text: 0, decodes: 1 },
        aliased: 0,
    };
    let root = composer.document().ok();
    let problems = composer.problems;
    Parsed { root: root.filter(|_| !problems.iter().any(Problem::is_fatal)), problems }
}

/// The error that stops the composer. The last problem is the reason.
struct Stop;

/// The work for a value with aliases expanded.
#[derive(Clone, Copy)]
struct Cost {
    values: usize,
    /// Bytes of text.
    text: usize,
    /// Decoding steps of yaml.v2.
    decodes: usize,
}

/// A list or map whose end has not been read.
struct Open {
    node: Node,
    anchor: Option<String>,
    /// The cost of all values before this one.
    before: Cost,
    /// The key whose value is next, and whether it is a merge key.
    key: Option<(Node, bool)>,
    /// Keys that merge keys brought.
    merged: BTreeSet<String>,
    /// The first place of each duplicate key.
    firsts: BTreeMap<String, Span>,
}

struct Composer<'a> {
    events: Events<'a>,
    limits: Limits,
    problems: Vec<Problem>,
    /// Offsets of the ambiguous scalars so far. An alias repeats a scalar.
    ambiguous: BTreeSet<usize>,
    /// True after a value that is too deep.
    deep: bool,
    /// The anchored values so far, with the cost of an alias to each; `None` inside the value.
    anchors: BTreeMap<String, Option<(Node, Cost)>>,
    spent: Cost,
    /// The decoding steps inside aliases.
    aliased: usize,
}

impl Composer<'_> {
    /// Reads the first document.
    fn document(&mut self) -> Result<Node, Stop> {
        if self.next()?.event != Event::StreamEnd {
            let root = self.root()?;
            // A null of zero length means that the text has only comments, or `---` alone.
            if root.read() != Some(Reading::Null) || root.span.len > 0 {
                self.next()?;
                self.check_end();
                return Ok(root);
            }
        }
        self.stop(ProblemKind::Empty, Span { offset: 0, len: 0, line: 1, column: 1 })
    }

    /// Reports content after the first document.
    fn check_end(&mut self) {
        match self.events.next() {
            Ok(Spanned { event: Event::StreamEnd, .. }) => {}
            Ok(second) => self.report(ProblemKind::SecondDocument, span(second.start, second.end)),
            Err(error) => self.report(ProblemKind::SecondDocument, span(error.mark, error.mark)),
        }
    }

    fn next(&mut self) -> Result<Spanned, Stop> {
        self.events.next().or_else(|error| {
            let began = error.began.into_iter().map(|mark| span(mark, mark)).collect();
            self.stop(ProblemKind::Syntax { message: error.problem, began }, span(error.mark, error.mark))
        })
    }

    fn report(&mut self, kind: ProblemKind, span: Span) {
        self.problems.push(Problem { kind, span });
    }

    fn stop<T>(&mut self, kind: ProblemKind, span: Span) -> Result<T, Stop> {
        self.report(kind, span);
        Err(Stop)
    }

    fn report_too_deep(&mut self, span: Span) {
        if !std::mem::replace(&mut self.deep, true) {
            self.report(ProblemKind::TooDeep, span);
        }
    }

    /// Counts values and bytes of text, and stops at the limits.
    fn charge(&mut self, values: usize, text: usize, span: Span) -> Result<(), Stop> {
        self.spent.values = self.spent.values.saturating_add(values);
        self.spent.text = self.spent.text.saturating_add(text);
        if self.spent.values > self.limits.values {
            return self.stop(ProblemKind::TooManyValues, span);
        }
        if self.spent.text > self.limits.text {
            return self.stop(ProblemKind::TooMuchText, span);
        }
        Ok(())
    }

    /// Reads the root with all values inside. A value that is too deep becomes null, or its last number that is not
    /// finite, because sigs.k8s.io/yaml refuses such a number.
    fn root(&mut self) -> Result<Node, Stop> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let spanned = self.next()?;
            let aliased = matches!(spanned.event, Event::Alias(_));
            let merges = is_merge_key(&spanned.event);
            let place = span(spanned.start, spanned.end);
            let deep = self.is_deep(&spanned.event, &open);
            let Some(mut node) = self.node(spanned, deep, &mut open)? else { continue };
            if deep && !is_not_finite(&node) {
                node = null(place);
            }
            let Some(parent) = open.last_mut() else { return Ok(node) };
            match &mut parent.node.value {
                Value::Mapping(_) => match parent.key.take() {
                    None => parent.key = Some((node, merges)),
                    Some((key, true)) => self.merge(parent, key.span, node, aliased)?,
                    Some((key, false)) => self.entry(parent, key, node)?,
                },
                Value::Sequence(items) => {
                    self.check_scalar(&node);
                    items.push(node);
                }
                // The parent is too deep.
                Value::Scalar(_) if is_not_finite(&node) => parent.node = node,
                Value::Scalar(_) => {}
            }
        }
    }

    /// Reports whether a value is too deep. A scalar key is at the level of its map, every other value one level deeper.
    fn is_deep(&self, event: &Event, open: &[Open]) -> bool {
        let has_level = match event {
            Event::SequenceEnd | Event::MappingEnd => false,
            Event::Scalar { .. } => {
                !open.last().is_some_and(|open| matches!(open.node.value, Value::Mapping(_)) && open.key.is_none())
            }
            _ => true,
        };
        has_level && open.len() >= self.limits.depth
    }

    /// Returns the value that an event completes. `None` at the start of a list or map.
    fn node(&mut self, spanned: Spanned, deep: bool, open: &mut Vec<Open>) -> Result<Option<Node>, Stop> {
        let place = span(spanned.start, spanned.end);
        if deep {
            self.report_too_deep(place);
        }
        let before = self.spent;
        self.spent.decodes += 1;
        let (value, own, mut properties) = match spanned.event {
            Event::Alias(name) => {
                let levels = self.limits.depth.saturating_sub(open.len()).max(1);
                return self.alias(&name, place, levels).map(Some);
            }
            Event::Scalar { text, plain, properties } => {
                let value = Value::Scalar(self.scalar(text, plain, properties.tag, place)?);
                return self.anchored(Node { value, span: place }, properties.anchor, before).map(Some);
            }
            Event::SequenceStart(properties) => (Value::Sequence(Vec::new()), "seq", properties),
            Event::MappingStart(properties) => (Value::Mapping(Mapping::new()), "map", properties),
            _ => {
                self.spent.decodes = before.decodes;
                let Some(ended) = open.pop() else { return Err(Stop) };
                return self.anchored(ended.node, ended.anchor, ended.before).map(Some);
            }
        };
        // A handle stands for a prefix of any length.
        self.charge(1, properties.tag.as_ref().map_or(0, String::len), place)?;
        let mut node = Node { value, span: place };
        if deep {
            node = null(place);
            // An alias of the value is null, even inside it.
            let cost = Cost { values: 1, text: 0, decodes: 1 };
            self.anchors.extend(properties.anchor.take().map(|name| (name, Some((node.clone(), cost)))));
        } else if let Some(tag) = properties.tag.filter(|tag| tag.strip_prefix(CORE) != Some(own)) {
            // A tag has no effect on a list or map.
            self.report(ProblemKind::UnsupportedTag(tag), place);
        }
        self.anchors.extend(properties.anchor.clone().map(|name| (name, None)));
        let (merged, firsts) = (BTreeSet::new(), BTreeMap::new());
        open.push(Open { node, anchor: properties.anchor, before, key: None, merged, firsts });
        Ok(None)
    }

    /// Stores a value with an anchor. `before` is the cost of all values before it.
    fn anchored(&mut self, node: Node, anchor: Option<String>, before: Cost) -> Result<Node, Stop> {
        if let Some(name) = anchor {
            let cost = Cost {
                values: self.spent.values - before.values,
                text: self.spent.text - before.text,
                decodes: self.spent.decodes - before.decodes,
            };
            // The stored copy takes as much memory as an alias.
            self.charge(cost.values, cost.text, node.span)?;
            self.anchors.insert(name, Some((node.clone(), cost)));
        }
        Ok(node)
    }

    fn scalar(&mut self, text: String, plain: bool, tag: Option<String>, span: Span) -> Result<Scalar, Stop> {
        self.charge(1, text.len().saturating_add(tag.as_ref().map_or(0, String::len)), span)?;
        match tag {
            None => Ok(Scalar { text, plain }),
            Some(tag) if tag.strip_prefix(CORE) == Some("str") => Ok(Scalar::quoted(text)),
            Some(tag) => {
                self.report(ProblemKind::UnsupportedTag(tag.clone()), span);
                match resolve_tagged(&tag, &text) {
                    Some(scalar) => Ok(scalar),
                    None => self.stop(ProblemKind::BadTag { tag, text }, span),
                }
            }
        }
    }

    /// Copies an anchored value, and cuts it below the remaining `levels` of the tree.
    fn alias(&mut self, name: &str, span: Span, levels: usize) -> Result<Node, Stop> {
        let cost = match self.anchors.get(name) {
            Some(Some((_, cost))) => *cost,
            Some(None) => return self.stop(ProblemKind::RecursiveAlias, span),
            None => return self.stop(ProblemKind::UnknownAnchor(name.to_owned()), span),
        };
        self.spent.decodes = self.spent.decodes.saturating_add(cost.decodes);
        self.aliased = self.aliased.saturating_add(cost.decodes);
        // yaml.v2's limit for up to 400,000 steps. It allows fewer aliases in larger documents.
        if self.aliased > 100 && self.spent.decodes > 1000 && self.aliased as f64 / self.spent.decodes as f64 > 0.99 {
            return self.stop(ProblemKind::ExcessiveAliases, span);
        }
        self.charge(cost.values, cost.text, span)?;
        let Some(Some((node, _))) = self.anchors.get(name) else { return Err(Stop) };
        let mut deeper = false;
        let node = copy(node, levels, &mut deeper);
        if deeper {
            self.report_too_deep(span);
        }
        Ok(node)
    }

    fn check_scalar(&mut self, node: &Node) {
        if let Value::Scalar(scalar) = &node.value
            && scalar.ambiguity().is_some()
            && self.ambiguous.insert(node.span.offset)
        {
            self.report(ProblemKind::AmbiguousScalar(scalar.clone()), node.span);
        }
    }

    /// Adds an entry to a map.
    fn entry(&mut self, parent: &mut Open, key: Node, value: Node) -> Result<(), Stop> {
        self.check_scalar(&value);
        let Some(name) = self.key(key.value, key.span)? else { return Ok(()) };
        let Value::Mapping(map) = &mut parent.node.value else { return Err(Stop) };
        if let Some(before) = map.get(&name)
            && !parent.merged.remove(&name)
        {
            let first = *parent.firsts.entry(name.clone()).or_insert(before.key);
            self.report(ProblemKind::DuplicateKey { key: name.clone(), first }, key.span);
        }
        map.insert(name, Entry { key: key.span, value });
        Ok(())
    }

    /// Returns a key as text. `None` if sigs.k8s.io/yaml refuses the document because of a scalar key. A list or map as
    /// key stops the composer.
    fn key(&mut self, key: Value, span: Span) -> Result<Option<String>, Stop> {
        let Value::Scalar(scalar) = &key else { return self.stop(ProblemKind::KeyNotText { key, name: None }, span) };
        let reading = scalar.read();
        let name = key_text(&reading);
        if !matches!(reading, Reading::Text(_)) || scalar.ambiguity().is_some() {
            self.report(ProblemKind::KeyNotText { key, name: name.clone() }, span);
        } else if reading.to_string().len() > self.limits.key {
            self.report(ProblemKind::LongKey, span);
        }
        Ok(name)
    }

    /// Expands a merge key. The first of several merged maps wins, and all of them override the entries above. Other
    /// readers let the map's own keys win; a difference is therefore a problem.
    fn merge(&mut self, parent: &mut Open, key: Span, value: Node, aliased: bool) -> Result<(), Stop> {
        // yaml.v2 does not count the key.
        self.spent.decodes -= 1;
        let sources = match value.value {
            Value::Sequence(items) if !aliased => {
                self.spent.decodes -= 1;
                items
            }
            other => vec![Node { value: other, span: value.span }],
        };
        let mut brought = Mapping::new();
        for source in sources {
            match source.value {
                Value::Mapping(source) => {
                    for (name, entry) in source {
                        brought.entry(name).or_insert(entry);
                    }
                }
                _ => self.report(ProblemKind::BadMerge, source.span),
            }
        }
        let Value::Mapping(map) = &mut parent.node.value else { return Err(Stop) };
        for (name, entry) in brought {
            if let Some(own) = map.get(&name)
                && own.key.offset < key.offset
                && !same_content(&own.value, &entry.value)
            {
                self.report(ProblemKind::MergeOverrides { key: name.clone(), first: own.key }, key);
            }
            parent.merged.insert(name.clone());
            map.insert(name, entry);
        }
        Ok(())
    }
}

fn span(start: Mark, end: Mark) -> Span {
    let len = end.offset.saturating_sub(start.offset);
    Span { offset: start.offset, len, line: start.line, column: start.column }
}

fn null(span: Span) -> Node {
    Node { value: Value::Scalar(Scalar::plain("")), span }
}

fn is_not_finite(node: &Node) -> bool {
    matches!(node.read(), Some(Reading::Float(value)) if !value.is_finite())
}

fn is_merge_key(event: &Event) -> bool {
    match event {
        Event::Scalar { text, plain, properties } => {
            let by_tag = properties.tag.as_deref().map(|tag| tag == "!" || tag.strip_prefix(CORE) == Some("merge"));
            text == "<<" && by_tag.unwrap_or(*plain)
        }
        _ => false,
    }
}

/// Copies the upper levels of a value; lists and maps below become null. Sets `deeper` if any value is below.
fn copy(node: &Node, levels: usize, deeper: &mut bool) -> Node {
    *deeper |= levels == 0;
    let value = match &node.value {
        Value::Scalar(scalar) => Value::Scalar(scalar.clone()),
        _ if levels == 0 => return null(node.span),
        Value::Sequence(items) => Value::Sequence(items.iter().map(|item| copy(item, levels - 1, deeper)).collect()),
        Value::Mapping(map) => {
            let mut entry = |entry: &Entry| Entry { key: entry.key, value: copy(&entry.value, levels - 1, deeper) };
            Value::Mapping(map.iter().map(|(key, value)| (key.clone(), entry(value))).collect())
        }
    };
    Node { value, span: node.span }
}

/// Reports whether both values have the same content, independent of notation and place.
fn same_content(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        (Value::Scalar(a), Value::Scalar(b)) => a.read().to_string() == b.read().to_string(),
        (Value::Sequence(a), Value::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_content(a, b))
        }
        (Value::Mapping(a), Value::Mapping(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && same_content(&a.value, &b.value))
        }
        _ => false,
    }
}
