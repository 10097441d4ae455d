//! Id of a plan: the hash of its content, including what reviews omit.

use std::fmt;
use std::fmt::Write as _;

use serde::Serialize;

use super::Plan;

/// Hash of a plan: `p1:<32 hexadecimal digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct PlanId(String);

impl PlanId {
    /// Id of a plan whose content is not hashed yet.
    pub(super) fn unset() -> Self {
        Self(String::new())
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Bytes that are hashed at once. Formatting writes single words.
const HASHED_AT_ONCE: usize = 16 << 10;

/// Hash of a text that is never held as a whole: that of 65,000 nodes has 50 MB.
#[derive(Default)]
struct TextHasher {
    hasher: blake3::Hasher,
    pending: String,
}

impl TextHasher {
    fn finish(mut self) -> blake3::Hash {
        self.hasher.update(self.pending.as_bytes());
        self.hasher.finalize()
    }
}

impl fmt::Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.pending.push_str(text);
        if self.pending.len() >= HASHED_AT_ONCE {
            self.hasher.update(self.pending.as_bytes());
            self.pending.clear();
        }
        Ok(())
    }
}

impl Plan {
    /// Id of this content, whatever id the plan has.
    pub(super) fn content_id(&self) -> PlanId {
        // Names each field, so that no field is forgotten.
        let Self {
            id: _,
            fleet,
            commit,
            namespace,
            config_maps,
            max_unavailable,
            pools,
            unpooled,
            releases,
            doubtful,
            prunable,
            pointer_changes: _,
            findings,
        } = self;
        let content = fmt::from_fn(|f| {
            f.debug_struct("Plan")
                .field("id", &PlanId::unset())
                .field("fleet", fleet)
                .field("commit", commit)
                .field("namespace", namespace)
                .field("config_maps", config_maps)
                .field("max_unavailable", max_unavailable)
                .field("pools", pools)
                .field("unpooled", unpooled)
                .field("releases", releases)
                .field("doubtful", doubtful)
                .field("prunable", prunable)
                .field("findings", findings)
                .finish()
        });
        let mut hasher = TextHasher::default();
        // A hasher accepts every text.
        let _ = write!(hasher, "{content:?}");
        let digits: String = hasher.finish().to_hex().chars().take(32).collect();
        PlanId(format!("p1:{digits}"))
    }

    /// The plan with the id of its content.
    pub(super) fn identified(self) -> Self {
        Self { id: self.content_id(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of a plan must not change how it is hashed.
    #[test]
    fn hashes_the_whole_text_in_any_pieces() {
        for piece in [1, 100, HASHED_AT_ONCE - 1, HASHED_AT_ONCE, 3 * HASHED_AT_ONCE] {
            let text: String = ('a'..='z').cycle().take(2 * HASHED_AT_ONCE + 7).collect();
            let mut hasher = TextHasher::default();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (next, later) = rest.split_at(piece.min(rest.len()));
                hasher.write_str(next).expect("a hasher accepts every text");
                rest = later;
            }
            assert_eq!(hasher.finish(), blake3::hash(text.as_bytes()), "{piece}");
        }
    }
}
