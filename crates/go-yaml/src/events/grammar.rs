//! The parser: turns tokens into events, checks their order, and fills in omitted values.

use super::names::Handles;
use super::scanner::{Kind, Scanner};
use super::{Event, Malformed, Mark, Properties, Spanned};

/// The expected input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    FirstDocument,
    NextDocument,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequence,
    IndentlessSequence,
    BlockKey,
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

/// The tokens after which a key or value of a block is omitted.
const BLOCK_ENDS: [Kind; 3] = [Kind::Key, Kind::Value, Kind::BlockEnd];

/// The events of a text.
pub(crate) struct Events<'a> {
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
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: ParserState::FirstDocument,
            states: Vec::new(),
            handles: Handles::default(),
            open: Vec::new(),
            ended: None,
        }
    }

    /// Returns the next event. After the end of the stream, returns [`Event::StreamEnd`] again.
    /// # Errors
    /// The syntax error. No event can be read after an error.
    pub(crate) fn next(&mut self) -> Read {
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
            ParserState::BlockSequence => self.block_sequence(),
            ParserState::IndentlessSequence => self.indentless_sequence(),
            ParserState::BlockKey => self.block_key(),
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
        Spanned { event: Event::Scalar { text: String::new(), plain: true, properties }, start, end }
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
            Kind::Scalar { plain } => {
                self.pop();
                let token = self.scanner.take()?;
                Event::Scalar { text: token.text, plain, properties }
            }
            Kind::FlowSequenceStart => {
                self.start(ParserState::FlowSequence { first: true }, Event::SequenceStart(properties))?
            }
            Kind::FlowMappingStart => {
                self.start(ParserState::FlowKey { first: true }, Event::MappingStart(properties))?
            }
            Kind::BlockSequenceStart if block => {
                self.start(ParserState::BlockSequence, Event::SequenceStart(properties))?
            }
            Kind::BlockMappingStart if block => self.start(ParserState::BlockKey, Event::MappingStart(properties))?,
            _ if !bare => {
                self.pop();
                return Ok(Self::empty(properties, spot.unwrap_or(start), end));
            }
            _ => return Err(self.unexpected("did not find expected node content", at)),
        };
        Ok(Spanned { event, start, end: after })
    }

    /// Takes the start of a list or map.
    fn start(&mut self, state: ParserState, event: Event) -> Result<Event, Malformed> {
        self.state = state;
        self.scanner.take()?;
        Ok(event)
    }

    /// Reads a value before the state `next`. If one of `ends` follows instead, the value is omitted at `mark`.
    fn value(&mut self, ends: &[Kind], next: ParserState, mark: Mark, block: bool, indentless: bool) -> Read {
        if ends.contains(&self.scanner.peek()?.0) {
            return Ok(self.omitted_value(next, mark));
        }
        self.states.push(next);
        self.node(block, indentless)
    }

    fn block_sequence(&mut self) -> Read {
        match self.scanner.peek()? {
            (Kind::BlockEntry, _, mark) => {
                self.scanner.take()?;
                self.value(&[Kind::BlockEntry, Kind::BlockEnd], ParserState::BlockSequence, mark, true, false)
            }
            (Kind::BlockEnd, ..) => self.end_of(Event::SequenceEnd),
            (_, start, _) => Err(self.unexpected("did not find expected '-' indicator", start)),
        }
    }

    /// Reads a list that is indented as far as its key.
    fn indentless_sequence(&mut self) -> Read {
        let (kind, start, mark) = self.scanner.peek()?;
        if kind != Kind::BlockEntry {
            self.pop();
            return Ok(Spanned { event: Event::SequenceEnd, start, end: start });
        }
        self.scanner.take()?;
        let ends = [Kind::BlockEntry, Kind::Key, Kind::Value, Kind::BlockEnd];
        self.value(&ends, ParserState::IndentlessSequence, mark, true, false)
    }

    fn block_key(&mut self) -> Read {
        match self.scanner.peek()? {
            (Kind::Key, _, mark) => {
                self.scanner.take()?;
                self.value(&BLOCK_ENDS, ParserState::BlockValue, mark, true, true)
            }
            (Kind::BlockEnd, ..) => self.end_of(Event::MappingEnd),
            (_, start, _) => Err(self.unexpected("did not find expected key", start)),
        }
    }

    fn block_value(&mut self) -> Read {
        let (kind, start, mark) = self.scanner.peek()?;
        if kind != Kind::Value {
            return Ok(self.omitted_value(ParserState::BlockKey, start));
        }
        self.scanner.take()?;
        self.value(&BLOCK_ENDS, ParserState::BlockKey, mark, true, true)
    }

    fn flow_sequence(&mut self, first: bool) -> Read {
        let (mut kind, mut start, mut end) = self.scanner.peek()?;
        if kind != Kind::FlowSequenceEnd && !first {
            if kind != Kind::FlowEntry {
                return Err(self.unexpected("did not find expected ',' or ']'", start));
            }
            self.scanner.take()?;
            (kind, start, end) = self.scanner.peek()?;
        }
        match kind {
            Kind::FlowSequenceEnd => self.end_of(Event::SequenceEnd),
            Kind::Key => {
                let event = self.start(ParserState::PairKey, Event::MappingStart(Properties::default()))?;
                Ok(Spanned { event, start, end })
            }
            _ => self.value(&[], ParserState::FlowSequence { first: false }, start, false, false),
        }
    }

    fn pair_key(&mut self) -> Read {
        let (kind, _, end) = self.scanner.peek()?;
        let ends = [Kind::Value, Kind::FlowEntry, Kind::FlowSequenceEnd];
        if ends.contains(&kind) {
            // Takes the comma or bracket too, as libyaml does: the following text is read as the value.
            self.scanner.take()?;
            return Ok(self.omitted_value(ParserState::PairValue, end));
        }
        self.value(&[], ParserState::PairValue, end, false, false)
    }

    fn pair_value(&mut self) -> Read {
        let (kind, start, _) = self.scanner.peek()?;
        if kind != Kind::Value {
            return Ok(self.omitted_value(ParserState::PairEnd, start));
        }
        self.scanner.take()?;
        self.value(&[Kind::FlowEntry, Kind::FlowSequenceEnd], ParserState::PairEnd, start, false, false)
    }

    fn flow_key(&mut self, first: bool) -> Read {
        let (mut kind, start, _) = self.scanner.peek()?;
        if kind != Kind::FlowMappingEnd && !first {
            if kind != Kind::FlowEntry {
                return Err(self.unexpected("did not find expected ',' or '}'", start));
            }
            self.scanner.take()?;
            kind = self.scanner.peek()?.0;
        }
        match kind {
            Kind::FlowMappingEnd => self.end_of(Event::MappingEnd),
            Kind::Key => {
                self.scanner.take()?;
                let (_, start, _) = self.scanner.peek()?;
                let ends = [Kind::Value, Kind::FlowEntry, Kind::FlowMappingEnd];
                self.value(&ends, ParserState::FlowValue, start, false, false)
            }
            _ => self.value(&[], ParserState::FlowNoValue, start, false, false),
        }
    }

    fn flow_value(&mut self) -> Read {
        let next = ParserState::FlowKey { first: false };
        let (kind, start, _) = self.scanner.peek()?;
        if kind != Kind::Value {
            return Ok(self.omitted_value(next, start));
        }
        self.scanner.take()?;
        let (_, start, _) = self.scanner.peek()?;
        self.value(&[Kind::FlowEntry, Kind::FlowMappingEnd], next, start, false, false)
    }
}
