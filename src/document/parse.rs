//! Builds the tree from the parser's events: aliases and merge keys are written out, everything is counted, and what
//! is wrong becomes a finding at its place.
//!
//! Keys that are not text are refused. The kubelet would turn `1:` into "1" and `yes:` into "true"; other readers would
//! not, no field of a KubeletConfiguration or of nodecfg's own formats is called like that, and quotes say what is meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle as Style, ScanError, Span, StrInput, Tag};

use super::{
    Document, Entry, MAX_BYTES, MAX_DEPTH, MAX_KEY, MAX_NODES, MAX_TEXT, Mapping, Node, Parsed, Reading, Scalar,
    ScalarStyle, Value, canonical_text, key_too_long, too_deep, too_many,
};
use crate::finding::{Finding, Place};

/// The most findings of one text. A text with more of them is not what it was taken for.
const MAX_FINDINGS: usize = 100;

pub(super) fn parse(file: &str, text: &str) -> Parsed {
    let file: Arc<str> = file.into();
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; nodecfg reads up to {MAX_BYTES}", text.len());
        let finding = Finding::error("file-too-large", message).at(Place::whole_file(file));
        return Parsed { document: None, findings: vec![finding] };
    }
    let options = granit_parser::options! { flow_nesting_limit: 2 * MAX_DEPTH, block_nesting_limit: 2 * MAX_DEPTH };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        file: file.clone(),
        findings: Vec::new(),
        anchors: BTreeMap::new(),
        nodes: 0,
        bytes: 0,
    };
    let root = builder.stream();
    let mut findings = builder.findings;
    if root.is_none() && findings.is_empty() {
        findings.push(
            Finding::error("empty-document", "the file holds no YAML document")
                .at(Place::whole_file(file))
                .help("delete the file, or write what it is for"),
        );
    }
    Parsed { document: root.map(|root| Document { root }), findings }
}

/// Reading has stopped; the finding that says why has been recorded.
struct Stop;

/// An anchored value, and what an alias of it costs.
struct Anchored {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    file: Arc<str>,
    findings: Vec<Finding>,
    anchors: BTreeMap<usize, Anchored>,
    /// Values so far, aliases written out.
    nodes: usize,
    /// Bytes of text so far, aliases written out.
    bytes: usize,
}

impl<'a> Builder<'a> {
    /// Reads the first document and refuses a second.
    fn stream(&mut self) -> Option<Node> {
        let mut root = None;
        let mut documents = 0;
        while let Some(next) = self.parser.next_event() {
            let (event, span) = match next {
                Ok(next) => next,
                Err(error) => {
                    self.malformed(&error);
                    return None;
                }
            };
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        let place = self.place(&span);
                        self.push(
                            Finding::error("second-document", "the file holds more than one YAML document")
                                .at(place)
                                .label("a second document starts here")
                                .help("keep one document per file: the kubelet would read only the first"),
                        );
                        return root;
                    }
                }
                Event::StreamStart | Event::DocumentEnd | Event::Comment(..) => {}
                Event::StreamEnd => break,
                event => match self.node(event, &span, 1) {
                    // Nothing but comments, or `---` alone.
                    Ok((node, _)) if node.is_null() && node.place.len == 0 => {}
                    Ok((node, _)) => root = Some(node),
                    Err(Stop) => return None,
                },
            }
        }
        root
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(next)) => return Ok(next),
                Some(Err(error)) => {
                    self.malformed(&error);
                    return Err(Stop);
                }
                None => {
                    let place = Place::whole_file(self.file.clone());
                    self.push(Finding::error("malformed-yaml", "the file ends in the middle of a value").at(place));
                    return Err(Stop);
                }
            }
        }
    }

    /// Reads one value that begins with `event`, and says how many levels it has.
    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<(Node, usize), Stop> {
        let place = self.place(span);
        if depth > MAX_DEPTH {
            return self.stop(Finding::error("too-deep", too_deep()).at(place));
        }
        if let Event::Alias(id) = event {
            return self.alias(id, place, depth);
        }
        let (nodes, bytes) = (self.nodes, self.bytes);
        self.charge(1, 0, &place)?;
        let (value, height, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.charge(0, text.len(), &place)?;
                let tagged_text = self.tag(tag.as_deref(), "str", &place);
                let scalar = if tag.is_some() && !tagged_text {
                    // Nothing that a later stage would have to complain about again.
                    Scalar::plain("")
                } else {
                    Scalar { text: text.into_owned(), style: own_style(style), tagged_text }
                };
                (Value::Scalar(scalar), 1, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), "seq", &place);
                let (items, height) = self.items(depth)?;
                (Value::Sequence(items), height, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), "map", &place);
                let (map, height) = self.entries(depth)?;
                (Value::Mapping(map), height, anchor)
            }
            _ => return self.stop(Finding::error("malformed-yaml", "the file is not valid YAML").at(place)),
        };
        let node = Node { value, place };
        if anchor != 0 {
            let (nodes, bytes) = (self.nodes - nodes, self.bytes - bytes);
            // The kept copy takes memory as an alias does.
            self.charge(nodes, bytes, &node.place)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), nodes, bytes, height });
        }
        Ok((node, height))
    }

    fn alias(&mut self, id: usize, place: Place, depth: usize) -> Result<(Node, usize), Stop> {
        let Some(anchored) = self.anchors.get(&id) else {
            let message = "an alias stands inside the very value that it refers to";
            return self.stop(Finding::error("recursive-alias", message).at(place));
        };
        let (nodes, bytes, height) = (anchored.nodes, anchored.bytes, anchored.height);
        if depth + height - 1 > MAX_DEPTH {
            return self.stop(Finding::error("too-deep", too_deep()).at(place));
        }
        self.charge(nodes, bytes, &place)?;
        match self.anchors.get(&id) {
            Some(anchored) => Ok((anchored.node.clone(), height)),
            None => Err(Stop),
        }
    }

    fn items(&mut self, depth: usize) -> Result<(Vec<Node>, usize), Stop> {
        let (mut items, mut height) = (Vec::new(), 1);
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok((items, height));
            }
            let (node, below) = self.node(event, &span, depth + 1)?;
            self.check_scalar(&node);
            height = height.max(below + 1);
            items.push(node);
        }
    }

    fn entries(&mut self, depth: usize) -> Result<(Mapping, usize), Stop> {
        let (mut map, mut height) = (Mapping::new(), 1);
        let mut merges = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let (key, _) = self.node(event, &span, depth + 1)?;
            let (event, span) = self.next()?;
            let (value, below) = self.node(event, &span, depth + 1)?;
            height = height.max(below + 1);
            if matches!(&key.value, Value::Scalar(s) if s.text == "<<" && s.style == ScalarStyle::Plain && !s.tagged_text)
            {
                merges.push((key.place, value));
                continue;
            }
            self.check_scalar(&value);
            let Some(name) = self.key(&key) else { continue };
            if let Some(first) = map.get(&name) {
                let first: &Entry = first;
                let finding = Finding::error("duplicate-key", format!("the key {name:?} appears twice in one map"))
                    .at(key.place)
                    .label("again here")
                    .related(first.key_place.clone(), "first here")
                    .help("keep one of them: readers disagree on which one counts");
                self.push(finding);
                continue;
            }
            map.insert(name, Entry { key_place: key.place, value });
        }
        for (place, value) in merges {
            self.merge_key(&mut map, &place, value);
        }
        Ok((map, height))
    }

    /// Writes out a merge key: what the map itself says wins, then the earlier of several merged maps. yaml.v2 lets a
    /// merge key override what stands before it, so one that would is refused.
    fn merge_key(&mut self, map: &mut Mapping, place: &Place, value: Node) {
        let sources = match value.value {
            Value::Sequence(items) => items,
            value_ => vec![Node { value: value_, place: value.place }],
        };
        let mut merged = Mapping::new();
        for source in sources {
            match source.value {
                Value::Mapping(source) => {
                    for (key, entry) in source {
                        merged.entry(key).or_insert(entry);
                    }
                }
                _ => self.push(
                    Finding::error("bad-merge-key", "`<<` takes a map or a list of maps")
                        .at(source.place)
                        .help("name a map by an alias, as in `<<: *defaults`"),
                ),
            }
        }
        for (key, entry) in merged {
            match map.get(&key) {
                None => {
                    map.insert(key, entry);
                }
                Some(own)
                    if own.key_place.file == place.file
                        && own.key_place.offset < place.offset
                        && !own.value.same_content(&entry.value) =>
                {
                    let message = format!("`<<` brings in {key:?}, which the map already sets above it");
                    let finding = Finding::error("ambiguous-merge-key", message)
                        .at(place.clone())
                        .related(own.key_place.clone(), "set here")
                        .help("put `<<` first in its map: readers disagree on which value counts");
                    self.push(finding);
                }
                Some(_) => {}
            }
        }
    }

    fn key(&mut self, key: &Node) -> Option<String> {
        let finding = match &key.value {
            Value::Scalar(scalar) => match scalar.read() {
                Reading::Text(text) if canonical_text(text).len() > MAX_KEY => {
                    Finding::error("key-too-long", key_too_long())
                }
                Reading::Text(text) => return Some(text.to_owned()),
                reading => {
                    let what = match &reading {
                        Reading::Refused(refusal) => refusal.problem.clone(),
                        reading => format!("`{}` is {}", scalar.text, reading.describe()),
                    };
                    Finding::error("key-not-text", format!("a key must be text: {what}"))
                        .help(format!("write {}", super::canonical::quoted(&scalar.text)))
                }
            },
            _ => Finding::error("key-not-text", format!("a key must be text, and this one is {}", key.describe())),
        };
        self.push(finding.at(key.place.clone()));
        None
    }

    /// Whether the tag is the one given; any other is an error.
    fn tag(&mut self, tag: Option<&Tag>, allowed: &str, place: &Place) -> bool {
        let Some(tag) = tag else { return false };
        if tag.is_yaml_core_schema_tag(allowed) {
            return true;
        }
        let finding = Finding::error("unsupported-tag", format!("the tag `{}` is not supported here", tag.original()))
            .at(place.clone())
            .help("write the value without a tag, in quotes if it is text");
        self.push(finding);
        false
    }

    fn check_scalar(&mut self, node: &Node) {
        if let Some(Reading::Refused(refusal)) = node.reading() {
            let finding =
                Finding::error("ambiguous-scalar", refusal.problem).at(node.place.clone()).help(refusal.way_out);
            // An alias brings the same scalar in again.
            if !self.findings.contains(&finding) {
                self.push(finding);
            }
        }
    }

    fn charge(&mut self, nodes: usize, bytes: usize, place: &Place) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > MAX_NODES {
            return self.stop(Finding::error("too-many-values", too_many()).at(place.clone()));
        }
        if self.bytes > MAX_TEXT {
            let message = format!("the document has more than {MAX_TEXT} bytes of text once aliases are written out");
            return self.stop(Finding::error("too-much-text", message).at(place.clone()));
        }
        Ok(())
    }

    fn stop<T>(&mut self, finding: Finding) -> Result<T, Stop> {
        self.findings.push(finding);
        Err(Stop)
    }

    fn push(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }

    fn malformed(&mut self, error: &ScanError) {
        let mark = error.marker();
        let place = Place {
            file: self.file.clone(),
            offset: mark.byte_offset().unwrap_or_default(),
            len: 0,
            line: mark.line().max(1),
            column: mark.col() + 1,
        };
        self.findings
            .push(Finding::error("malformed-yaml", format!("the file is not valid YAML: {}", error.info())).at(place));
    }

    fn place(&self, span: &Span) -> Place {
        let offset = span.start.byte_offset().unwrap_or_default();
        let end = span.end.byte_offset().unwrap_or(offset);
        Place {
            file: self.file.clone(),
            offset,
            len: end.saturating_sub(offset),
            line: span.start.line().max(1),
            column: span.start.col() + 1,
        }
    }
}

fn own_style(style: Style) -> ScalarStyle {
    match style {
        Style::Plain => ScalarStyle::Plain,
        Style::SingleQuoted => ScalarStyle::SingleQuoted,
        Style::DoubleQuoted => ScalarStyle::DoubleQuoted,
        Style::Literal => ScalarStyle::Literal,
        Style::Folded => ScalarStyle::Folded,
    }
}

#[cfg(test)]
mod tests;
