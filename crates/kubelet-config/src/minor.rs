//! Minor versions of Kubernetes 1. All facts about kubelets are stored per minor version.

use std::fmt;

/// A minor version of Kubernetes 1: 21 is 1.21.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u32);

/// The oldest, newest and newest released version in the table.
const VERSIONS: [Minor; 3] = read(include_bytes!("../data/versions.csv"));

/// The oldest supported kubelet.
pub const OLDEST: Minor = VERSIONS[0];
/// The newest kubelet in the tables.
pub const NEWEST: Minor = VERSIONS[1];

/// The newest released kubelet, and the default version to check configurations for. The facts of later versions come
/// from their development, and may change until the release.
pub const NEWEST_RELEASED: Minor = VERSIONS[2];

/// Reads the oldest, newest and newest released version from a table with lines such as `1.36,released`. It runs at
/// compile time, so that versions can be used in patterns.
const fn read(mut table: &[u8]) -> [Minor; 3] {
    let (mut oldest, mut newest, mut released) = (Minor(0), Minor(0), Minor(0));
    while let [_, rest @ ..] = table {
        if let [b'1', b'.', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b',', state, ..] = table {
            newest = Minor((*tens - b'0') as u32 * 10 + (*ones - b'0') as u32);
            if oldest.0 == 0 {
                oldest = newest;
            }
            if *state == b'r' {
                released = newest;
            }
        }
        table = rest;
    }
    [oldest, newest, released]
}

impl Minor {
    /// Parses `1.36`, or the minor of `v1.36.2` and `1.36.2-eks-1`. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.")?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        let plausible =
            !digits.is_empty() && digits.len() <= 3 && (rest.is_empty() || rest.starts_with(['.', '-', '+']));
        if plausible { digits.parse().ok().map(Self) } else { None }
    }

    /// Parses a supported version.
    ///
    /// # Errors
    /// A sentence with the supported versions.
    pub fn parse_known(text: &str) -> Result<Self, String> {
        match Self::parse(text) {
            Some(minor) if minor.is_known() => Ok(minor),
            Some(minor) => {
                Err(format!("kubelet {minor} is not supported; supported versions are {OLDEST} to {NEWEST}"))
            }
            None => Err(format!("{text:?} is not a Kubernetes version; write one such as {NEWEST_RELEASED}")),
        }
    }

    /// Reports whether the tables contain this version: [`OLDEST`] to [`NEWEST`].
    #[must_use]
    pub fn is_known(self) -> bool {
        (OLDEST..=NEWEST).contains(&self)
    }

    /// Returns every version in the tables, oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (OLDEST.0..=NEWEST.0).map(Self)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl serde::Serialize for Minor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Minor {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Minor".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^1\\.[0-9]+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_versions_is_well_formed() {
        let lines: Vec<&str> = include_str!("../data/versions.csv").lines().collect();
        assert_eq!(lines[0], "minor,state");
        let wanted: Vec<String> = Minor::all()
            .map(|minor| format!("{minor},{}", if minor <= NEWEST_RELEASED { "released" } else { "unreleased" }))
            .collect();
        assert_eq!(lines[1..], wanted);
        assert!(OLDEST < NEWEST_RELEASED && NEWEST_RELEASED <= NEWEST);
        assert_eq!(
            read(b"minor,state\n1.16,released\n1.17,released\n1.18,unreleased\n"),
            [Minor(16), Minor(18), Minor(17)]
        );
    }

    #[test]
    fn parses_versions() {
        for (text, minor) in [
            ("1.36", Some(36)),
            ("v1.21.1", Some(21)),
            ("1.29.0-eks-036c24b", Some(29)),
            ("1.27+", Some(27)),
            ("2.1", None),
            ("1", None),
            ("1.", None),
            ("1.x", None),
            ("1.36x", None),
            ("", None),
        ] {
            assert_eq!(Minor::parse(text), minor.map(Minor), "{text}");
        }
        assert_eq!(Minor::parse_known(&format!("v{NEWEST}.0-beta.0")), Ok(NEWEST));
        let next = Minor(NEWEST.0 + 1).to_string();
        for (text, problem) in [
            ("1.15", format!("kubelet 1.15 is not supported; supported versions are 1.16 to {NEWEST}")),
            (&next, format!("kubelet {next} is not supported; supported versions are 1.16 to {NEWEST}")),
            ("latest", format!("\"latest\" is not a Kubernetes version; write one such as {NEWEST_RELEASED}")),
        ] {
            assert_eq!(Minor::parse_known(text), Err(problem));
        }
        assert!(NEWEST_RELEASED.is_known());
        assert!(OLDEST.is_known() && NEWEST.is_known() && !Minor(15).is_known() && !Minor(NEWEST.0 + 1).is_known());
    }
}
