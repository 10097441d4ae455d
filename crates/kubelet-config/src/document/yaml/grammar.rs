//! The parser: turns tokens into events, checks their order, and fills in omitted values.

use super::names::Handles;
use super::scanner::{Kind, Scanner};
use super::{Event, Malformed, Mark, Properties, ScalarStyle, Spanned};

/// The expected input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    FirstDocument,
    NextDocument,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequence {
        first: bool,
    },
    IndentlessSequence,
    BlockKey {
        first: bool,
    },
    BlockValue,
    FlowSequence {
        first: bool,
    },
    /// A map of one entry, written without braces in a list.
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        first: bool,
    },
    FlowValue,
    /// A key without a colon.
    FlowNoValue,
    End,
}

/// The events of a text.
pub(in crate::document) struct Events<'a> {
    scanner: Scanner<'a>,
    state: ParserState,
    states: Vec<ParserState>,
    handles: Handles,
    /// Start positions of the open lists and maps.
    open: Vec<Mark>,
    /// Start position of the list or map that has just ended.
    ended: Option<Mark>,
}

type Read = Result<Spanned, Malformed>;

impl<'a> Events<'a> {
    pub(in crate::document) fn new(text: &'a str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: ParserState::FirstDocument,
            states: Vec::new(),
            handles: Handles::none(),
            open: Vec::new(),
            ended: None,
        }
    }

    /// Returns the next event. After the end of the stream, returns [`Event::StreamEnd`] again.
    /// # Errors
    /// The syntax error. No event can be read after an error.
    pub(in crate::document) fn next(&mut self) -> Read {
        let spanned = self.read()?;
        self.ended = match &spanned.event {
            Event::SequenceStart(_) | Event::MappingStart(_) => {
                self.open.push(spanned.start);
                None
            }
            Event::SequenceEnd | Event::MappingEnd => self.open.pop(),
            _ => None,
        };
        Ok(spanned)
    }

    /// Creates an error for the open list or map.
    fn unexpected(&self, problem: &str, mark: Mark) -> Malformed {
        Malformed::new(problem, mark).began(self.open.last().copied().into_iter().chain(self.ended))
    }

    fn read(&mut self) -> Read {
        match self.state {
            ParserState::FirstDocument => self.document_start(true),
            ParserState::NextDocument => self.document_start(false),
            ParserState::DocumentContent => self.document_content(),
            ParserState::DocumentEnd => self.document_end(),
            ParserState::BlockNode => self.node(true, false),
            ParserState::BlockSequence { first } => self.block_sequence(first),
            ParserState::IndentlessSequence => self.indentless_sequence(),
            ParserState::BlockKey { first } => self.block_key(first),
            ParserState::BlockValue => self.block_value(),
            ParserState::FlowSequence { first } => self.flow_sequence(first),
            ParserState::PairKey => self.pair_key(),
            ParserState::PairValue => self.pair_value(),
            ParserState::PairEnd => {
                let (_, start, _) = self.scanner.peek()?;
                self.state = ParserState::FlowSequence { first: false };
                Ok(Spanned { event: Event::MappingEnd, start, end: start })
            }
            ParserState::FlowKey { first } => self.flow_key(first),
            ParserState::FlowValue => self.flow_value(),
            ParserState::FlowNoValue => {
                let (_, start, _) = self.scanner.peek()?;
                Ok(self.omitted_value(ParserState::FlowKey { first: false }, start))
            }
            ParserState::End => {
                let mark = self.scanner.cursor.mark;
                Ok(Spanned { event: Event::StreamEnd, start: mark, end: mark })
            }
        }
    }

    /// Returns to the enclosing construct.
    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(ParserState::End);
    }

    /// Returns an empty plain scalar for an omitted value.
    fn omitted_value(&mut self, state: ParserState, mark: Mark) -> Spanned {
        self.state = state;
        Self::empty(Properties::default(), mark, mark)
    }

    fn empty(properties: Properties, start: Mark, end: Mark) -> Spanned {
        Spanned { event: Event::Scalar { text: String::new(), style: ScalarStyle::Plain, properties }, start, end }
    }

    fn end_of(&mut self, event: Event) -> Read {
        self.pop();
        let token = self.scanner.take()?;
        Ok(Spanned { event, start: token.start, end: token.end })
    }

    fn document_start(&mut self, first: bool) -> Read {
        let (mut kind, mut start, mut end) = self.scanner.peek()?;
        while !first && kind == Kind::DocumentEnd {
            self.scanner.take()?;
            (kind, start, end) = self.scanner.peek()?;
        }
        if kind == Kind::StreamEnd {
            self.state = ParserState::End;
            return Ok(Spanned { event: Event::StreamEnd, start, end });
        }
        let explicit = !first || matches!(kind, Kind::VersionDirective | Kind::TagDirective | Kind::DocumentStart);
        self.directives()?;
        self.states.push(ParserState::DocumentEnd);
        self.state = ParserState::BlockNode;
        if explicit {
            let (kind, mark, after) = self.scanner.peek()?;
            if kind != Kind::DocumentStart {
                return Err(Malformed::new("did not find expected <document start>", mark));
            }
            self.scanner.take()?;
            end = after;
            self.state = ParserState::DocumentContent;
        }
        Ok(Spanned { event: Event::DocumentStart, start, end })
    }

    fn directives(&mut self) -> Result<(), Malformed> {
        let mut version = false;
        loop {
            match self.scanner.peek()? {
                (Kind::VersionDirective, start, _) => {
                    if version {
                        return Err(Malformed::new("found duplicate %YAML directive", start));
                    }
                    if self.scanner.take()?.text != "1.1" {
                        return Err(Malformed::new("found incompatible YAML document", start));
                    }
                    version = true;
                }
                (Kind::TagDirective, start, _) => {
                    let token = self.scanner.take()?;
                    self.handles.add(token.text, token.suffix, start)?;
                }
                _ => break,
            }
        }
        self.handles.add_default();
        Ok(())
    }

    fn document_content(&mut self) -> Read {
        match self.scanner.peek()? {
            (
                Kind::VersionDirective | Kind::TagDirective | Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd,
                start,
                _,
            ) => {
                self.pop();
                Ok(Self::empty(Properties::default(), start, start))
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Read {
        let (kind, start, mut end) = self.scanner.peek()?;
        if kind == Kind::DocumentEnd {
            self.scanner.take()?;
        } else {
            end = start;
        }
        self.handles.clear();
        self.state = ParserState::NextDocument;
        Ok(Spanned { event: Event::DocumentEnd, start, end })
    }

    /// Reads a value. `block` allows block collections. `indentless` allows a list that is indented as far as its key.
    fn node(&mut self, block: bool, indentless: bool) -> Read {
        let (kind, mut start, mut end) = self.scanner.peek()?;
        if kind == Kind::Alias {
            self.pop();
            let token = self.scanner.take()?;
            return Ok(Spanned { event: Event::Alias(token.text), start, end });
        }
        let mut properties = Properties::default();
        let mut spot = None;
        // An anchor and a tag, each at most once, in any order.
        loop {
            match self.scanner.peek()? {
                (Kind::Anchor, at, _) if properties.anchor.is_none() => {
                    let token = self.scanner.take()?;
                    spot.get_or_insert(at);
                    end = token.end;
                    properties.anchor = Some(token.text);
                }
                (Kind::Tag, at, _) if properties.tag.is_none() => {
                    let token = self.scanner.take()?;
                    spot.get_or_insert(at);
                    end = token.end;
                    properties.tag = Some(self.handles.resolve(&token.text, &token.suffix, at)?);
                }
                _ => break,
            }
        }
        let (kind, at, after) = self.scanner.peek()?;
        // The place of the value excludes its properties.
        let bare = spot.is_none();
        if bare || kind != Kind::StreamEnd {
            start = at;
        }
        let event = match kind {
            Kind::BlockEntry if indentless => {
                self.state = ParserState::IndentlessSequence;
                Event::SequenceStart(properties)
            }
            Kind::Scalar(style) => {
                self.pop();
                let token = self.scanner.take()?;
                Event::Scalar { text: token.text, style, properties }
            }
            Kind::FlowSequenceStart => {
                self.state = ParserState::FlowSequence { first: true };
                Event::SequenceStart(properties)
            }
            Kind::FlowMappingStart => {
                self.state = ParserState::FlowKey { first: true };
                Event::MappingStart(properties)
            }
            Kind::BlockSequenceStart if block => {
                self.state = ParserState::BlockSequence { first: true };
                Event::SequenceStart(properties)
            }
            Kind::BlockMappingStart if block => {
                self.state = ParserState::BlockKey { first: true };
                Event::MappingStart(properties)
            }
            _ if !bare => {
                self.pop();
                return Ok(Self::empty(properties, spot.unwrap_or(start), end));
            }
            _ => return Err(self.unexpected("did not find expected node content", at)),
        };
        Ok(Spanned { event, start, end: after })
    }

    fn block_sequence(&mut self, first: bool) -> Read {
        if first {
            self.scanner.take()?;
        }
        match self.scanner.peek()? {
            (Kind::BlockEntry, _, mark) => {
                self.scanner.take()?;
                let again = ParserState::BlockSequence { first: false };
                if matches!(self.scanner.peek()?.0, Kind::BlockEntry | Kind::BlockEnd) {
                    return Ok(self.omitted_value(again, mark));
                }
                self.states.push(again);
                self.node(true, false)
            }
            (Kind::BlockEnd, ..) => self.end_of(Event::SequenceEnd),
            (_, start, _) => Err(self.unexpected("did not find expected '-' indicator", start)),
        }
    }

    /// Reads a list that is indented as far as its key.
    fn indentless_sequence(&mut self) -> Read {
        match self.scanner.peek()? {
            (Kind::BlockEntry, _, mark) => {
                self.scanner.take()?;
                if matches!(self.scanner.peek()?.0, Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd) {
                    return Ok(self.omitted_value(ParserState::IndentlessSequence, mark));
                }
                self.states.push(ParserState::IndentlessSequence);
                self.node(true, false)
            }
            (_, start, _) => {
                self.pop();
                Ok(Spanned { event: Event::SequenceEnd, start, end: start })
            }
        }
    }

    fn block_key(&mut self, first: bool) -> Read {
        if first {
            self.scanner.take()?;
        }
        match self.scanner.peek()? {
            (Kind::Key, _, mark) => {
                self.scanner.take()?;
                if matches!(self.scanner.peek()?.0, Kind::Key | Kind::Value | Kind::BlockEnd) {
                    return Ok(self.omitted_value(ParserState::BlockValue, mark));
                }
                self.states.push(ParserState::BlockValue);
                self.node(true, true)
            }
            (Kind::BlockEnd, ..) => self.end_of(Event::MappingEnd),
            (_, start, _) => Err(self.unexpected("did not find expected key", start)),
        }
    }

    fn block_value(&mut self) -> Read {
        let next = ParserState::BlockKey { first: false };
        match self.scanner.peek()? {
            (Kind::Value, _, mark) => {
                self.scanner.take()?;
                if matches!(self.scanner.peek()?.0, Kind::Key | Kind::Value | Kind::BlockEnd) {
                    return Ok(self.omitted_value(next, mark));
                }
                self.states.push(next);
                self.node(true, true)
            }
            (_, start, _) => Ok(self.omitted_value(next, start)),
        }
    }

    fn flow_sequence(&mut self, first: bool) -> Read {
        if first {
            self.scanner.take()?;
        }
        let (mut kind, mut start, mut end) = self.scanner.peek()?;
        if kind != Kind::FlowSequenceEnd {
            if !first {
                if kind != Kind::FlowEntry {
                    return Err(self.unexpected("did not find expected ',' or ']'", start));
                }
                self.scanner.take()?;
                (kind, start, end) = self.scanner.peek()?;
            }
            if kind == Kind::Key {
                self.state = ParserState::PairKey;
                self.scanner.take()?;
                return Ok(Spanned { event: Event::MappingStart(Properties::default()), start, end });
            }
            if kind != Kind::FlowSequenceEnd {
                self.states.push(ParserState::FlowSequence { first: false });
                return self.node(false, false);
            }
        }
        self.end_of(Event::SequenceEnd)
    }

    fn pair_key(&mut self) -> Read {
        let (kind, _, end) = self.scanner.peek()?;
        if matches!(kind, Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd) {
            // Takes the comma or bracket too, as libyaml does: the following text is read as the value.
            self.scanner.take()?;
            return Ok(self.omitted_value(ParserState::PairValue, end));
        }
        self.states.push(ParserState::PairValue);
        self.node(false, false)
    }

    fn pair_value(&mut self) -> Read {
        let (kind, start, _) = self.scanner.peek()?;
        if kind == Kind::Value {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.0, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                self.states.push(ParserState::PairEnd);
                return self.node(false, false);
            }
        }
        Ok(self.omitted_value(ParserState::PairEnd, start))
    }

    fn flow_key(&mut self, first: bool) -> Read {
        if first {
            self.scanner.take()?;
        }
        let (mut kind, start, _) = self.scanner.peek()?;
        if kind != Kind::FlowMappingEnd {
            if !first {
                if kind != Kind::FlowEntry {
                    return Err(self.unexpected("did not find expected ',' or '}'", start));
                }
                self.scanner.take()?;
                kind = self.scanner.peek()?.0;
            }
            if kind == Kind::Key {
                self.scanner.take()?;
                let (kind, start, _) = self.scanner.peek()?;
                if matches!(kind, Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd) {
                    return Ok(self.omitted_value(ParserState::FlowValue, start));
                }
                self.states.push(ParserState::FlowValue);
                return self.node(false, false);
            }
            if kind != Kind::FlowMappingEnd {
                self.states.push(ParserState::FlowNoValue);
                return self.node(false, false);
            }
        }
        self.end_of(Event::MappingEnd)
    }

    fn flow_value(&mut self) -> Read {
        let (kind, mut start, _) = self.scanner.peek()?;
        let next = ParserState::FlowKey { first: false };
        if kind == Kind::Value {
            self.scanner.take()?;
            let (kind, after, _) = self.scanner.peek()?;
            if !matches!(kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                self.states.push(next);
                return self.node(false, false);
            }
            start = after;
        }
        Ok(self.omitted_value(next, start))
    }
}
