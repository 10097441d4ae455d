//! Syntax of names, labels and keys, with the messages of apimachinery `pkg/util/validation`. Each public function
//! returns the violations.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_name_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// Validates a DNS subdomain.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, 253).into_iter().collect();
    if !text.split('.').all(is_label) {
        reasons.push(SUBDOMAIN.to_owned());
    }
    reasons
}

/// Validates a DNS label.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, 63).into_iter().collect();
    if !is_label(text) {
        reasons.push(LABEL.to_owned());
    }
    reasons
}

/// Validates a key of labels or annotations.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                reasons.push("prefix part must be non-empty".to_owned());
            } else {
                reasons.extend(subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
    };
    if name.is_empty() {
        reasons.push("name part must be non-empty".to_owned());
    }
    reasons.extend(too_long(name, 63).map(|why| format!("name part {why}")));
    if !is_name_part(name) {
        reasons.push(NAME_PART.to_owned());
    }
    reasons
}

/// Validates the value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, 63).into_iter().collect();
    if !text.is_empty() && !is_name_part(text) {
        reasons.push(LABEL_VALUE.to_owned());
    }
    reasons
}

/// Validates a key of a ConfigMap.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, 253).into_iter().collect();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        reasons.push(CONFIG_KEY.to_owned());
    }
    match text {
        "." => reasons.push("must not be '.'".to_owned()),
        ".." => reasons.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_names() {
        assert!(subdomain("ip-10-0-0-1.eu-west-1.compute.internal").is_empty());
        assert!(label("kube-system").is_empty());
        assert!(qualified_name("nodecfg.dev/content-hash").is_empty());
        assert!(label_value("").is_empty() && label_value("a_b.C").is_empty());
        assert!(config_key("kubelet").is_empty());
    }

    #[test]
    fn rejects_invalid_names() {
        assert_eq!(subdomain("Rec_A").len(), 1);
        assert_eq!(label("a.b").len(), 1);
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert_eq!(qualified_name("/b"), ["prefix part must be non-empty"]);
        assert_eq!(label_value("-a").len(), 1);
        assert_eq!(config_key("../x").len(), 2);
    }
}
