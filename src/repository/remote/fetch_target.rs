//! Selects what to fetch for a revision from the references that a server lists. Must not do I/O.

use git2::Oid;

/// Maximum number of names in a hint.
const MAX_NAMES: usize = 8;

/// The number of hexadecimal digits of a SHA-1 ID.
const SHA1_DIGITS: usize = 40;
/// The number of hexadecimal digits of a SHA-256 ID, which nodecfg does not support.
const SHA256_DIGITS: usize = 64;

/// A reference listed by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedReference {
    /// `HEAD`, `refs/heads/main`, `refs/tags/v1`, and `refs/tags/v1^{}` for the target of an annotated tag.
    pub name: String,
    /// The object ID.
    pub id: Oid,
    /// The target of a symbolic reference.
    pub target: Option<String>,
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchTarget {
    /// The target of a reference.
    Reference {
        /// The reference.
        name: String,
        /// The commit, according to the server.
        commit: Oid,
    },
    /// A commit without a reference.
    Commit(Oid),
    /// A revision that needs the history: a shortened ID, or `main~2`.
    History,
    /// An unknown revision.
    Unknown,
    /// A repository that is empty or has no commit on HEAD.
    Empty,
}

/// The ID of a revision that is a full SHA-1 ID.
fn full_id(revision: &str) -> Option<Oid> {
    let hexadecimal = revision.len() == SHA1_DIGITS && revision.chars().all(|c| c.is_ascii_hexdigit());
    hexadecimal.then(|| Oid::from_str(revision).ok()).flatten()
}

/// The full ID at the beginning of a revision such as `<id>~2`.
#[must_use]
pub fn leading_id(revision: &str) -> Option<Oid> {
    full_id(revision.split(['~', '^', '@', ':']).next().unwrap_or_default())
}

/// Selects what to fetch. Searches names in the order of gitrevisions(7), tags before branches.
#[must_use]
pub fn select(revision: Option<&str>, listed: &[ListedReference]) -> FetchTarget {
    let revision = revision.unwrap_or("HEAD");
    // As in git, a full ID is never a name. Otherwise a pushed branch of that name could replace the commit.
    let hexadecimal = revision.chars().all(|c| c.is_ascii_hexdigit());
    if let Some(id) = full_id(revision) {
        return match listed.iter().find(|reference| reference.id == id) {
            Some(reference) => {
                FetchTarget::Reference { name: reference.name.trim_end_matches("^{}").to_owned(), commit: id }
            }
            None => FetchTarget::Commit(id),
        };
    }
    if hexadecimal && revision.len() == SHA256_DIGITS {
        return FetchTarget::Unknown;
    }
    let names = [
        revision.to_owned(),
        format!("refs/{revision}"),
        format!("refs/tags/{revision}"),
        format!("refs/heads/{revision}"),
    ];
    let named = |name: &str| listed.iter().find(|reference| reference.name == name);
    for name in names.iter().filter(|name| *name == "HEAD" || name.starts_with("refs/")) {
        if let Some(reference) = named(name) {
            let commit = named(&format!("{name}^{{}}")).unwrap_or(reference).id;
            return FetchTarget::Reference { name: name.clone(), commit };
        }
    }
    if listed.is_empty() {
        return FetchTarget::Empty;
    }
    let computed = revision.contains(['~', '^', '@', ':']);
    if computed || (hexadecimal && (4..40).contains(&revision.len())) {
        return FetchTarget::History;
    }
    if revision == "HEAD" { FetchTarget::Empty } else { FetchTarget::Unknown }
}

/// The hint of an unknown revision.
#[must_use]
pub fn hint(revision: &str, listed: &[ListedReference]) -> String {
    if full_id(revision).is_some() {
        return "no branch or tag contains that commit; it may have been removed by a force-push; specify another \
                revision"
            .to_owned();
    }
    let mut names: Vec<&str> = listed
        .iter()
        .filter_map(|reference| {
            let name = reference.name.strip_prefix("refs/heads/").or_else(|| reference.name.strip_prefix("refs/tags/"));
            name.filter(|name| !name.ends_with("^{}"))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > MAX_NAMES { format!(" and {} more", names.len() - MAX_NAMES) } else { String::new() };
    names.truncate(MAX_NAMES);
    if names.is_empty() {
        return "push a commit: the repository has no branches or tags".to_owned();
    }
    format!("use {}{more} or a full commit ID", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: u8) -> Oid {
        Oid::from_str(&char::from(digit).to_string().repeat(40)).unwrap()
    }

    fn listed() -> Vec<ListedReference> {
        let full = |digit: &str, length| digit.repeat(length);
        [
            ("HEAD", b'a'),
            ("refs/heads/main", b'a'),
            ("refs/heads/both", b'b'),
            ("refs/pull/1/merge", b'e'),
            ("refs/tags/both", b'c'),
            ("refs/tags/v1", b'd'),
            ("refs/tags/v1^{}", b'a'),
            (&format!("refs/heads/{}", full("7", 40)), b'b'),
            (&full("7", 40), b'b'),
            (&format!("refs/tags/{}", full("8", 40)), b'b'),
            (&format!("refs/heads/{}", full("5", 64)), b'b'),
        ]
        .map(|(name, digit)| ListedReference { name: name.to_owned(), id: id(digit), target: None })
        .to_vec()
    }

    #[test]
    fn selects_targets_and_explains_unknown_revisions() {
        let reference = |name: &str, digit| FetchTarget::Reference { name: name.to_owned(), commit: id(digit) };
        let full = |digit: char| digit.to_string().repeat(40);
        for (revision, expected) in [
            (None, reference("HEAD", b'a')),
            (Some("main"), reference("refs/heads/main", b'a')),
            (Some("heads/both"), reference("refs/heads/both", b'b')),
            (Some("both"), reference("refs/tags/both", b'c')),
            (Some("v1"), reference("refs/tags/v1", b'a')),
            (Some("refs/pull/1/merge"), reference("refs/pull/1/merge", b'e')),
            (Some(&full('e')), reference("refs/pull/1/merge", b'e')),
            (Some(&full('9')), FetchTarget::Commit(id(b'9'))),
            // Branches and tags with names like IDs.
            (Some(&full('7')), FetchTarget::Commit(id(b'7'))),
            (Some(&full('8')), FetchTarget::Commit(id(b'8'))),
            (Some(&"5".repeat(64)), FetchTarget::Unknown),
            (Some("abcd"), FetchTarget::History),
            (Some("abc"), FetchTarget::Unknown),
            (Some("main~2"), FetchTarget::History),
            (Some("nope"), FetchTarget::Unknown),
            (Some(""), FetchTarget::Unknown),
        ] {
            assert_eq!(select(revision, &listed()), expected, "{revision:?}");
        }
        assert_eq!(select(None, &[]), FetchTarget::Empty);
        assert_eq!(select(Some("main"), &[]), FetchTarget::Empty);
        assert_eq!(select(None, &listed()[1..]), FetchTarget::Empty);
        assert_eq!(
            hint("nope", &listed()),
            format!("use {}, {}, {}, both, main, v1 or a full commit ID", "5".repeat(64), full('7'), full('8'))
        );
        assert!(hint(&full('9'), &listed()).contains("force-push"));
    }
}
