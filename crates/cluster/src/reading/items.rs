//! Splitter of a Kubernetes list into its items while it arrives: needs the memory of one object instead of one page.
//! Parses only nesting and strings of JSON; serde decodes and thereby checks each item.

use memchr::memchr2;

/// Current position in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Outside the items: all bytes go into the envelope.
    Envelope,
    /// Between objects of `items`.
    Between,
    /// Inside one object of `items`.
    Item,
}

/// Splits the bytes of a list: yields each element of its top-level `items` array, and keeps the rest as a list
/// without items.
#[derive(Debug)]
pub(crate) struct ItemSplitter {
    part: Part,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Start in `envelope` of the last string of the first level. The string is a key when a colon follows.
    last_string: Option<usize>,
    /// Whether the value of the key `items` follows.
    after_items_key: bool,
    envelope: Vec<u8>,
    item: Vec<u8>,
}

impl ItemSplitter {
    /// Splitter at the start of a list.
    pub(crate) fn new() -> Self {
        Self {
            part: Part::Envelope,
            depth: 0,
            in_string: false,
            escaped: false,
            last_string: None,
            after_items_key: false,
            envelope: Vec::new(),
            item: Vec::new(),
        }
    }

    /// Accepts the next bytes and passes every completed item to `each`.
    pub(crate) fn push<E>(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        // The bytes from `start` belong to the current part and are not copied yet.
        let mut start = 0;
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.in_string {
                if std::mem::take(&mut self.escaped) {
                    at += 1;
                    continue;
                }
                // Most of a list is text.
                let Some(end) = chunk.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) else { break };
                at += end;
                self.escaped = chunk.get(at) == Some(&b'\\');
                self.in_string = self.escaped;
                at += 1;
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    if self.part == Part::Envelope && self.depth == 1 {
                        self.last_string = Some(self.envelope.len() + (at - start));
                    }
                }
                b':' if self.part == Part::Envelope && self.depth == 1 => {
                    self.store(chunk.get(start..at));
                    start = at;
                    let key = self.last_string.and_then(|from| self.envelope.get(from..));
                    self.after_items_key = key.is_some_and(|key| key.trim_ascii_end() == b"\"items\"");
                }
                b',' if self.part == Part::Envelope && self.depth == 1 => self.after_items_key = false,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.part == Part::Envelope && self.depth == 2 && byte == b'[' && self.after_items_key {
                        self.store(chunk.get(start..=at));
                        start = at + 1;
                        self.part = Part::Between;
                    } else if self.part == Part::Between {
                        // Commas and spaces before the object.
                        start = at;
                        self.part = Part::Item;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.part == Part::Item && self.depth == 2 {
                        let piece = chunk.get(start..=at).unwrap_or_default();
                        start = at + 1;
                        self.part = Part::Between;
                        if self.item.is_empty() {
                            each(piece)?;
                        } else {
                            self.item.extend_from_slice(piece);
                            each(&self.item)?;
                            self.item.clear();
                        }
                    } else if self.part == Part::Between && self.depth == 1 {
                        start = at;
                        self.part = Part::Envelope;
                        self.after_items_key = false;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.store(chunk.get(start..));
        Ok(())
    }

    fn store(&mut self, bytes: Option<&[u8]>) {
        let bytes = bytes.unwrap_or_default();
        match self.part {
            Part::Envelope => self.envelope.extend_from_slice(bytes),
            Part::Item => self.item.extend_from_slice(bytes),
            Part::Between => {}
        }
    }

    /// Number of the bytes that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.envelope.len() + self.item.len()
    }

    /// List without its items.
    pub(crate) fn into_envelope(self) -> Vec<u8> {
        self.envelope
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cut(text: &[u8], size: usize) -> (Value, Vec<Value>) {
        let mut splitter = ItemSplitter::new();
        let mut items = Vec::new();
        for chunk in text.chunks(size.max(1)) {
            splitter
                .push(chunk, |item| {
                    items.push(serde_json::from_slice(item)?);
                    Ok::<(), serde_json::Error>(())
                })
                .expect("items are JSON");
        }
        (serde_json::from_slice(&splitter.into_envelope()).expect("the envelope is JSON"), items)
    }

    #[test]
    fn splits_items_across_any_chunks() {
        let list = json!({
            "metadata": {"resourceVersion": "7", "items": [1], "continue": "a\"],[{"},
            "kind": "items",
            "items": [{"a": "]}\\\""}, {"items": [{}, []]}, {}],
            "after": [{"x": 1}],
        });
        for pretty in [false, true] {
            let text = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) }.expect("text");
            for size in 1..=text.len() {
                let (envelope, items) = cut(&text, size);
                assert_eq!(Value::Array(items), list["items"], "{size}");
                assert_eq!(envelope["metadata"], list["metadata"]);
                assert_eq!(envelope["after"], list["after"]);
                assert_eq!(envelope["items"], json!([]));
            }
        }
    }

    #[test]
    fn list_without_items_is_all_envelope() {
        for list in [json!({"items": null, "x": [1]}), json!({"kind": "Status"}), json!({"items": []})] {
            let (envelope, items) = cut(list.to_string().as_bytes(), 3);
            assert_eq!(envelope, list);
            assert!(items.is_empty());
        }
    }

    proptest! {
        #[test]
        fn accepts_any_bytes_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1_usize..9) {
            let mut splitter = ItemSplitter::new();
            for chunk in bytes.chunks(size) {
                let _ = splitter.push(chunk, |_| Ok::<(), ()>(()));
            }
        }

        #[test]
        fn splits_items_of_any_text(texts in proptest::collection::vec(".*", 0..5), size in 1_usize..40) {
            let items: Vec<Value> = texts.iter().map(|text| json!({text.as_str(): [text]})).collect();
            let list = json!({"items": items, "metadata": {"continue": texts.first()}});
            let (envelope, cut) = cut(list.to_string().as_bytes(), size);
            prop_assert_eq!(Value::Array(cut), list["items"].clone());
            prop_assert_eq!(&envelope["metadata"], &list["metadata"]);
        }
    }
}
