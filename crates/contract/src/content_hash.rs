//! Content hash: names a configuration by its canonical form and the version of the algorithm.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{FleetName, PoolName};

/// Characters of a short hash: consonants and digits that form no words and are hard to confuse. Kubernetes uses the
/// same alphabet for generated names (apimachinery `util/rand`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Length of a short hash: 27^10 values, some 47 bits.
const SHORT_LENGTH: usize = 10;

/// Hash of a configuration's canonical form, written `v1:blake3:<64 hexadecimal digits>`.
///
/// The version names the algorithm of the canonical form. After a new version, running content is recognized by
/// comparing the content itself, so a new algorithm alone never changes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Version and algorithm at the start of the written form.
    pub const PREFIX: &'static str = "v1:blake3:";

    /// Hashes canonical bytes.
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        Self(*blake3::hash(canonical).as_bytes())
    }

    /// Ten characters for an object name: the first 128 bits modulo 27^10.
    #[must_use]
    pub fn short(&self) -> String {
        let mut head = [0_u8; 16];
        for (to, from) in head.iter_mut().zip(self.0) {
            *to = from;
        }
        let mut rest = u128::from_be_bytes(head);
        let mut short = String::with_capacity(SHORT_LENGTH);
        for _ in 0..SHORT_LENGTH {
            let digit = usize::try_from(rest % 27).unwrap_or_default();
            rest /= 27;
            short.extend(ALPHABET.get(digit).map(|byte| char::from(*byte)));
        }
        short
    }

    /// Name of the ConfigMap of a pool with this content: `<fleet>-<pool>-<hash>`. Two DNS labels and ten characters stay below
    /// the limit of 253 for object names.
    #[must_use]
    pub fn config_map(self, fleet: &FleetName, pool: &PoolName) -> String {
        format!("{fleet}-{pool}-{}", self.short())
    }

    /// Short hash at the end of a ConfigMap name of the form `<fleet>-<pool>-<hash>`; `None` for other names.
    #[must_use]
    pub fn short_in<'n>(name: &'n str, fleet: &FleetName, pool: &PoolName) -> Option<&'n str> {
        let rest = name.strip_prefix(fleet.as_str())?.strip_prefix('-')?;
        let short = rest.strip_prefix(pool.as_str())?.strip_prefix('-')?;
        (short.len() == SHORT_LENGTH && short.bytes().all(|byte| ALPHABET.contains(&byte))).then_some(short)
    }

    /// Parses the written form. Returns `None` for another version, which is not comparable.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let hash = blake3::Hash::from_hex(digits).ok()?;
        // `from_hex` accepts upper case too, but a hash has only one written form.
        (hash.to_hex().as_str() == digits).then(|| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for ContentHash {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not a content hash of the form {}<hex>", Self::PREFIX))
    }
}

/// BLAKE3 digest of any bytes, as 64 hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden vector of the full hash, which exists in clusters of users. It changes only with the version.
    #[test]
    fn golden_vectors() {
        let empty = ContentHash::of(b"");
        assert_eq!(empty.to_string(), "v1:blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(empty.short().len(), 10);
        assert_eq!(ContentHash::parse(&empty.to_string()), Some(empty));
    }

    #[test]
    fn finds_hash_only_in_valid_names() {
        let (fleet, pool) = (FleetName::new("prod").unwrap(), PoolName::new("a").unwrap());
        let short = ContentHash::of(b"").short();
        assert_eq!(ContentHash::of(b"").config_map(&fleet, &pool), format!("prod-a-{short}"));
        assert_eq!(ContentHash::short_in(&format!("prod-a-{short}"), &fleet, &pool), Some(short.as_str()));
        for other in ["prod-a-", "prod-a-bbbbbbbbb", "prod-a-bbbbbbbbbbb", "prod-a-settings22", "x-prod-a-bbbbbbbbbb"] {
            assert_eq!(ContentHash::short_in(other, &fleet, &pool), None, "{other}");
        }
    }

    #[test]
    fn rejects_other_versions_and_spellings() {
        let written = ContentHash::of(b"x").to_string();
        for bad in
            ["", "v1:blake3:", "v2:blake3:00", &written.to_uppercase(), &written.replace("v1", "v2"), &written[1..]]
        {
            assert_eq!(ContentHash::parse(bad), None, "{bad}");
        }
    }
}
