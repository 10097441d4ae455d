//! The events of a YAML stream.

use granit_parser::{Event as Granit, Parser, ScalarStyle as Style, ScanError, StrInput, Tag};

use super::{MAX_DEPTH, ScalarStyle};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) anchor: Option<String>,
    pub(super) tag: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar { text: String, style: ScalarStyle, properties: Properties },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

pub(super) struct Spanned {
    pub(super) event: Event,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

pub(super) struct Malformed {
    pub(super) problem: String,
    pub(super) mark: Mark,
}

pub(super) struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Events<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let options =
            granit_parser::options! { flow_nesting_limit: 20 * MAX_DEPTH, block_nesting_limit: 20 * MAX_DEPTH };
        Self { parser: Parser::new_from_str_with_options(text, options) }
    }

    pub(super) fn next(&mut self) -> Result<Spanned, Malformed> {
        loop {
            let (event, span) = match self.parser.next_event() {
                Some(Ok(next)) => next,
                Some(Err(error)) => return Err(malformed(&error)),
                None => {
                    let mark = Mark { offset: 0, line: 1, column: 1 };
                    return Ok(Spanned { event: Event::StreamEnd, start: mark, end: mark });
                }
            };
            let properties = |anchor: usize, tag: Option<&Tag>| Properties {
                anchor: (anchor != 0).then(|| anchor.to_string()),
                tag: tag.map(full),
            };
            let event = match event {
                Granit::StreamStart | Granit::Comment(..) => continue,
                Granit::StreamEnd => Event::StreamEnd,
                Granit::DocumentStart(..) => Event::DocumentStart,
                Granit::DocumentEnd => Event::DocumentEnd,
                Granit::Alias(id) => Event::Alias(id.to_string()),
                Granit::Scalar(text, style, anchor, tag) => {
                    let style = own_style(style);
                    Event::Scalar { text: text.into_owned(), style, properties: properties(anchor, tag.as_deref()) }
                }
                Granit::SequenceStart(_, anchor, tag) => Event::SequenceStart(properties(anchor, tag.as_deref())),
                Granit::MappingStart(_, anchor, tag) => Event::MappingStart(properties(anchor, tag.as_deref())),
                Granit::SequenceEnd => Event::SequenceEnd,
                Granit::MappingEnd => Event::MappingEnd,
                _ => continue,
            };
            let mark = |mark: &granit_parser::Marker| Mark {
                offset: mark.byte_offset().unwrap_or_default(),
                line: mark.line().max(1),
                column: mark.col() + 1,
            };
            return Ok(Spanned { event, start: mark(&span.start), end: mark(&span.end) });
        }
    }
}

fn full(tag: &Tag) -> String {
    format!("{}{}", tag.handle(), tag.suffix())
}

fn malformed(error: &ScanError) -> Malformed {
    let mark = error.marker();
    let mark =
        Mark { offset: mark.byte_offset().unwrap_or_default(), line: mark.line().max(1), column: mark.col() + 1 };
    Malformed { problem: error.info().to_string(), mark }
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
