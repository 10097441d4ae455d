//! Image names as `github.com/distribution/reference` parses them, and the patterns of
//! `preloadedImagesVerificationAllowlist` (`pkg/kubelet/images/pullmanager/image_pull_policies.go`).

use std::borrow::Cow;

/// The registry of a name without a registry.
const REGISTRY: &str = "docker.io";
/// The former name of [`REGISTRY`].
const OLD_REGISTRY: &str = "index.docker.io";
/// The folder of the registry's official images.
const OFFICIAL: &str = "library/";
/// The maximum length of an image name.
const MAX_LENGTH: usize = 255;

/// Checks one entry of the list: an image name without tag and digest, or a prefix that ends with `/*`. With
/// `whole_names` a name must include registry and folder.
///
/// # Errors
/// A phrase to follow the quoted pattern and "which", and the fix.
pub(super) fn check_pattern(pattern: &str, whole_names: bool) -> Result<(), (&'static str, String)> {
    const FORMS: &str = "write an image such as docker.io/library/nginx, or a prefix such as registry.example/team/*";
    if pattern.trim() != pattern {
        return Err(("has blanks at its start or end", format!("write {:?}", pattern.trim())));
    }
    let (name, prefix) = match pattern.strip_suffix("/*") {
        Some(prefix) => (prefix, true),
        None => (pattern, false),
    };
    if name.contains('*') {
        return Err(("has a * other than in a final /*", FORMS.to_owned()));
    }
    if name.is_empty() {
        return Err((if prefix { "has no registry" } else { "is empty" }, FORMS.to_owned()));
    }
    if prefix {
        return Ok(());
    }
    match whole_name(name) {
        Err(problem) => Err((problem, FORMS.to_owned())),
        Ok(whole) if whole_names && whole != name => Err(("is not a full image name", format!("write {whole}"))),
        Ok(_) => Ok(()),
    }
}

/// Returns an image name with its registry and folder (`ParseNormalizedNamed`). Tags and digests are errors.
fn whole_name(name: &str) -> Result<Cow<'_, str>, &'static str> {
    if name.contains('@') {
        return Err("has a digest");
    }
    if name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        return Err("has a tag");
    }
    let is_hash =
        |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_hash(name) {
        return Err("is an image identifier, not a name");
    }
    let (registry, path) = match name.split_once('/') {
        Some((OLD_REGISTRY, path)) => (REGISTRY, path),
        Some((first, path)) if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first => {
            (first, path)
        }
        _ => (REGISTRY, name),
    };
    let official = registry == REGISTRY && !path.contains('/');
    let whole = format!("{registry}/{}{path}", if official { OFFICIAL } else { "" });
    let named = whole.strip_prefix(registry).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    if named.to_lowercase() != named {
        return Err("has upper-case letters, which repository names cannot contain");
    }
    if !is_registry(registry) || !named.split('/').all(is_component) {
        return Err("is not an image name");
    }
    if whole.len() > MAX_LENGTH {
        return Err("is too long for an image name");
    }
    Ok(if whole == name { Cow::Borrowed(name) } else { Cow::Owned(whole) })
}

/// Reports whether a text is a host name, or an address in brackets, with or without a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rfind(']').map_or_else(|| text.split_once(':'), |end| split_port(text, end)) {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    }
    host.split('.').all(|label| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

/// Splits a text at the colon after a closing bracket.
fn split_port(text: &str, end: usize) -> Option<(&str, &str)> {
    let (host, rest) = text.split_at_checked(end + 1)?;
    rest.strip_prefix(':').map(|port| (host, port)).or((!rest.is_empty()).then_some((host, "")))
}

/// Reports whether a text consists of lower-case letters and digits, separated by `.`, `_`, `__` or any number of
/// `-`.
fn is_component(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separators = text.split(alphanumeric).filter(|separator| !separator.is_empty());
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && separators.all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_names_and_refuses_invalid_ones() {
        for (name, whole) in [
            ("nginx", "docker.io/library/nginx"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/a/b", "docker.io/a/b"),
            ("a/b", "docker.io/a/b"),
            ("docker.io/library/nginx", "docker.io/library/nginx"),
            ("host:5000/a", "host:5000/a"),
            ("localhost/a", "localhost/a"),
            ("GCR.io/a__b/c--d.e", "GCR.io/a__b/c--d.e"),
            ("[::1]:5000/a", "[::1]:5000/a"),
        ] {
            assert_eq!(whole_name(name).as_deref(), Ok(whole), "{name}");
        }
        let hash = "a".repeat(64);
        for bad in [
            "nginx:1",
            "host:5000/a:1",
            "a@sha256:00",
            "Nginx",
            "gcr.io/A",
            "a//b",
            "a/",
            "/a",
            "a b",
            "a___b",
            "a.",
            "host:/a",
            "host:x/a",
            "[::1/a",
            "[::1]x/a",
            "-a.io/b",
            "a..io/b",
            &hash,
            &"a".repeat(250),
        ] {
            assert!(whole_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn allows_star_only_at_end_of_pattern() {
        for good in ["nginx", "host:5000/*", "a/b/*", "docker.io/library/nginx", "anything goes: here/*"] {
            assert_eq!(check_pattern(good, false), Ok(()), "{good}");
        }
        for bad in ["", "*", "/*", "a*", "*/a", "a/*/b", " a", "a ", "a:1", "a/**"] {
            assert!(check_pattern(bad, false).is_err(), "{bad}");
        }
        assert!(check_pattern("nginx", true).is_err_and(|(_, help)| help == "write docker.io/library/nginx"));
        assert_eq!(check_pattern("docker.io/library/nginx", true), Ok(()));
    }
}
