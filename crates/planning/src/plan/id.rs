//! Id of a plan: the hash of its content, including what reviews omit.

use std::fmt::{self, Write as _};

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

/// Hash of a text that is never held as a whole: that of 65,000 nodes has 50 MB.
struct TextHasher(blake3::Hasher);

impl fmt::Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
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
        let mut hasher = TextHasher(blake3::Hasher::new());
        // A hasher accepts every text.
        let _ = write!(hasher, "{content:?}");
        let digits: String = hasher.0.finalize().to_hex().chars().take(32).collect();
        PlanId(format!("p1:{digits}"))
    }

    /// The plan with the id of its content.
    pub(super) fn identified(self) -> Self {
        Self { id: self.content_id(), ..self }
    }
}
