//! Names of images, as `github.com/distribution/reference` reads them, and the patterns of
//! `preloadedImagesVerificationAllowlist` (`pkg/kubelet/images/pullmanager/image_pull_policies.go`).

use std::borrow::Cow;

/// The registry that a name without one means.
const REGISTRY: &str = "docker.io";
/// Its older name.
const OLD_REGISTRY: &str = "index.docker.io";
/// The folder of that registry's own images.
const OFFICIAL: &str = "library/";
/// The longest name of an image.
const LONGEST: usize = 255;

/// Checks one entry of the list: the name of an image without tag and digest, or a prefix that ends in `/*`. With
/// `whole_names` a name has to have its registry and folder.
///
/// # Errors
/// What is wrong, ready to follow the quoted pattern and "which", and the way out.
pub(super) fn check_pattern(pattern: &str, whole_names: bool) -> Result<(), (&'static str, String)> {
    const FORMS: &str = "write an image such as docker.io/library/nginx, or a prefix such as registry.example/team/*";
    if pattern.trim() != pattern {
        return Err(("has blanks around it", format!("write {:?}", pattern.trim())));
    }
    let (name, prefix) = match pattern.strip_suffix("/*") {
        Some(prefix) => (prefix, true),
        None => (pattern, false),
    };
    if name.contains('*') {
        return Err(("has a * elsewhere than in a final /*", FORMS.to_owned()));
    }
    if name.is_empty() {
        return Err((if prefix { "names no registry" } else { "is empty" }, FORMS.to_owned()));
    }
    if prefix {
        return Ok(());
    }
    match whole_name(name) {
        Err(problem) => Err((problem, FORMS.to_owned())),
        Ok(whole) if whole_names && whole != name => {
            Err(("is not the whole name of an image", format!("write {whole}")))
        }
        Ok(_) => Ok(()),
    }
}

/// The name of an image with its registry and folder (`ParseNormalizedNamed`). It must have neither tag nor digest.
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
        return Err("is the identifier of an image, not a name");
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
        return Err("has upper-case letters, which no repository has");
    }
    if !is_registry(registry) || !named.split('/').all(is_component) {
        return Err("is not the name of an image");
    }
    if whole.len() > LONGEST {
        return Err("is too long for the name of an image");
    }
    Ok(if whole == name { Cow::Borrowed(name) } else { Cow::Owned(whole) })
}

/// A host name or an address in brackets, with a port or without.
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

/// What is before and after the colon that follows a closing bracket.
fn split_port(text: &str, end: usize) -> Option<(&str, &str)> {
    let (host, rest) = text.split_at_checked(end + 1)?;
    rest.strip_prefix(':').map(|port| (host, port)).or((!rest.is_empty()).then_some((host, "")))
}

/// Lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
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
    fn names_have_neither_tag_nor_digest() {
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
    fn patterns_end_in_a_star_or_have_none() {
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
