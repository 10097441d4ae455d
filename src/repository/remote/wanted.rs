//! What to ask a server for, from the references that it lists and the revision that is wanted. Pure.

use git2::Oid;

/// How many names a hint lists.
const NAMES: usize = 8;

/// The hexadecimal digits of an id of SHA-1.
const SHA1: usize = 40;
/// The hexadecimal digits of an id of SHA-256, as no repository has that nodecfg reads.
const SHA256: usize = 64;

/// A reference as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// `HEAD`, `refs/heads/main`, `refs/tags/v1`, and `refs/tags/v1^{}` for what an annotated tag is of.
    pub name: String,
    /// What it points at.
    pub id: Oid,
    /// The reference that a symbolic one stands for.
    pub target: Option<String>,
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What a reference points at now.
    Reference {
        /// The reference.
        name: String,
        /// The commit, as far as the server tells.
        commit: Oid,
    },
    /// A commit that no reference points at.
    Commit(Oid),
    /// Something that only the history can tell: a shortened id, or `main~2`.
    History,
    /// Nothing that the server has.
    Unknown,
    /// The repository has no commits.
    Empty,
}

/// The id that a revision is, when it is a full one of SHA-1.
fn full_id(revision: &str) -> Option<Oid> {
    let hexadecimal = revision.len() == SHA1 && revision.chars().all(|c| c.is_ascii_hexdigit());
    hexadecimal.then(|| Oid::from_str(revision).ok()).flatten()
}

/// The full id that a revision such as `<id>~2` begins with.
#[must_use]
pub fn leading_id(revision: &str) -> Option<Oid> {
    full_id(revision.split(['~', '^', '@', ':']).next().unwrap_or_default())
}

/// Finds what to fetch. Names are looked for in the order of gitrevisions(7), tags before branches.
#[must_use]
pub fn wanted(revision: Option<&str>, listed: &[Listed]) -> Wanted {
    let revision = revision.unwrap_or("HEAD");
    // As git has it, what may be a full id is never a name: whoever can push a branch of that name would choose the commit.
    let hexadecimal = revision.chars().all(|c| c.is_ascii_hexdigit());
    if let Some(id) = full_id(revision) {
        return match listed.iter().find(|reference| reference.id == id) {
            Some(reference) => {
                Wanted::Reference { name: reference.name.trim_end_matches("^{}").to_owned(), commit: id }
            }
            None => Wanted::Commit(id),
        };
    }
    if hexadecimal && revision.len() == SHA256 {
        return Wanted::Unknown;
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
            return Wanted::Reference { name: name.clone(), commit };
        }
    }
    if listed.is_empty() {
        return Wanted::Empty;
    }
    let computed = revision.contains(['~', '^', '@', ':']);
    if computed || (hexadecimal && (4..40).contains(&revision.len())) {
        return Wanted::History;
    }
    if revision == "HEAD" { Wanted::Empty } else { Wanted::Unknown }
}

/// What revisions there are instead.
#[must_use]
pub fn hint(revision: &str, listed: &[Listed]) -> String {
    if full_id(revision).is_some() {
        return "no branch or tag leads to that commit any more: it may have been force-pushed away; name another"
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
    let more = if names.len() > NAMES { format!(" and {} more", names.len() - NAMES) } else { String::new() };
    names.truncate(NAMES);
    if names.is_empty() {
        return "it has no branches or tags; push something first".to_owned();
    }
    format!("it has {}{more}; a full commit id will do too", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: u8) -> Oid {
        Oid::from_str(&char::from(digit).to_string().repeat(40)).unwrap()
    }

    fn listed() -> Vec<Listed> {
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
        .map(|(name, digit)| Listed { name: name.to_owned(), id: id(digit), target: None })
        .to_vec()
    }

    #[test]
    fn revisions_are_found_among_what_is_listed() {
        let reference = |name: &str, digit| Wanted::Reference { name: name.to_owned(), commit: id(digit) };
        let full = |digit: char| digit.to_string().repeat(40);
        for (revision, expected) in [
            (None, reference("HEAD", b'a')),
            (Some("main"), reference("refs/heads/main", b'a')),
            (Some("heads/both"), reference("refs/heads/both", b'b')),
            (Some("both"), reference("refs/tags/both", b'c')),
            (Some("v1"), reference("refs/tags/v1", b'a')),
            (Some("refs/pull/1/merge"), reference("refs/pull/1/merge", b'e')),
            (Some(&full('e')), reference("refs/pull/1/merge", b'e')),
            (Some(&full('9')), Wanted::Commit(id(b'9'))),
            // Branches and tags that are named like ids.
            (Some(&full('7')), Wanted::Commit(id(b'7'))),
            (Some(&full('8')), Wanted::Commit(id(b'8'))),
            (Some(&"5".repeat(64)), Wanted::Unknown),
            (Some("abcd"), Wanted::History),
            (Some("abc"), Wanted::Unknown),
            (Some("main~2"), Wanted::History),
            (Some("nope"), Wanted::Unknown),
            (Some(""), Wanted::Unknown),
        ] {
            assert_eq!(wanted(revision, &listed()), expected, "{revision:?}");
        }
        assert_eq!(wanted(None, &[]), Wanted::Empty);
        assert_eq!(wanted(Some("main"), &[]), Wanted::Empty);
        assert_eq!(wanted(None, &listed()[1..]), Wanted::Empty);
        assert_eq!(
            hint("nope", &listed()),
            format!(
                "it has {}, {}, {}, both, main, v1; a full commit id will do too",
                "5".repeat(64),
                full('7'),
                full('8')
            )
        );
        assert!(hint(&full('9'), &listed()).contains("force-pushed"));
    }
}
