//! Syntax checks for label keys, label values and DNS names, as API servers and kubelets check them.

/// Checks a DNS label (RFC 1123): 1 to 63 characters of `[a-z0-9-]` with an alphanumeric start and end.
///
/// # Errors
/// A phrase to follow the quoted name in a sentence.
pub fn check_dns_label(value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 63 {
        return Err("must have 1 to 63 characters".to_owned());
    }
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !alphanumeric(value.chars().next()) || !alphanumeric(value.chars().next_back()) {
        return Err("must start and end with a lower-case letter or a digit".to_owned());
    }
    match value.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')) {
        Some(bad) => Err(format!("has {bad:?}; only lower-case letters, digits and '-' may be used")),
        None => Ok(()),
    }
}

/// Checks a DNS subdomain (RFC 1123): labels joined by dots, at most 253 characters.
///
/// # Errors
/// A phrase to follow the quoted name in a sentence.
pub fn check_dns_subdomain(value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 253 {
        return Err("must have 1 to 253 characters".to_owned());
    }
    value.split('.').try_for_each(|label| {
        // Kubernetes limits the whole subdomain to 253 characters, but not its labels to 63.
        let head: String = label.chars().take(63).collect();
        check_dns_label(if label.len() > 63 { head.trim_end_matches('-') } else { label })
    })
}

/// Checks a label key (apimachinery `IsQualifiedName`): a name of up to 63 characters, optionally after a DNS
/// subdomain and a slash.
///
/// # Errors
/// A phrase to follow the quoted key in a sentence.
pub fn check_label_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if check_dns_subdomain(prefix).is_err() {
                return Err(format!("has the prefix {prefix:?}, which is not a DNS subdomain"));
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        return Err("has no name".to_owned());
    }
    check_label_text(name)
}

/// Checks a label value (apimachinery `IsValidLabelValue`): empty, or up to 63 characters.
///
/// # Errors
/// A phrase to follow the quoted value in a sentence.
pub fn check_label_value(value: &str) -> Result<(), String> {
    if value.is_empty() { Ok(()) } else { check_label_text(value) }
}

fn check_label_text(text: &str) -> Result<(), String> {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if text.len() > 63 {
        return Err("has more than 63 characters".to_owned());
    }
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
        return Err(format!("has {bad:?}; only letters, digits, '-', '_' and '.' may be used"));
    }
    if !ends(text.chars().next()) || !ends(text.chars().next_back()) {
        return Err("must start and end with a letter or a digit".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_labels_as_kubernetes_does() {
        for good in ["a", "A.b_c-1", "example.com/a", "node-role.kubernetes.io/x"] {
            assert_eq!(check_label_key(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "a/", "-a", "a b", "Example.com/a", "a/b/c", &"x".repeat(64)] {
            assert!(check_label_key(bad).is_err(), "{bad}");
        }
        assert_eq!(check_label_value(""), Ok(()));
        for bad in ["-", "a b", "é", &"x".repeat(64)] {
            assert!(check_label_value(bad).is_err(), "{bad}");
        }
    }
}
