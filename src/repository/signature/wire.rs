//! The SSH wire format, as far as keys and signatures need it (RFC 4251, section 5): numbers, strings, whole numbers of any
//! size. Nothing here knows what they mean.

/// Reads from the front. Every reading is `None` where the bytes end too soon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.string()?).ok()
    }

    /// A positive whole number without leading zeros.
    pub(super) fn positive(&mut self) -> Option<&'a [u8]> {
        let bytes = self.string()?;
        let digits = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        // One zero in front keeps the sign positive; more, or one that is not needed, is no canonical form.
        let canonical = match (bytes.first(), digits.first()) {
            (Some(0), first) => first.is_some_and(|first| first & 0x80 != 0),
            (Some(first), _) => first & 0x80 == 0,
            (None, _) => false,
        };
        canonical.then_some(digits)
    }

    /// Nothing is left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Writes a string: its length and its bytes.
pub(super) fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    // What is written here was read before, or is a digest: it is never 4 GiB long.
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read_and_no_more() {
        let mut bytes = Vec::new();
        put_string(&mut bytes, b"git");
        let mut reader = Reader(&bytes);
        assert_eq!(reader.text(), Some("git"));
        assert_eq!(reader.end(), Some(()));
        assert_eq!(Reader(&bytes[..6]).string(), None);
        assert_eq!(Reader(&[0xff; 4]).string(), None);
        assert_eq!(Reader(&[1]).end(), None);
    }

    #[test]
    fn whole_numbers_are_positive_and_in_canonical_form() {
        let read = |digits: &[u8]| {
            let mut bytes = Vec::new();
            put_string(&mut bytes, digits);
            Reader(&bytes).positive().map(<[u8]>::to_vec)
        };
        assert_eq!(read(&[1, 0]), Some(vec![1, 0]));
        assert_eq!(read(&[0, 0x80]), Some(vec![0x80]));
        for other in [&[][..], &[0], &[0, 1], &[0, 0, 0x80], &[0x80]] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
