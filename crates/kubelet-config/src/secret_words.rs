//! Words in a text of another program that may be secret, and their replacement. A text of unknown form cannot be read
//! with certainty, so in doubt a word is replaced.

use crate::secrets::{NOT_SHOWN, without_credentials};

/// Parts of a name whose value, after `=` or `:` in the same word, may be secret.
const PARTS_OF_NAMES: [&str; 9] = ["token", "passw", "pwd", "secret", "key", "auth", "cookie", "credential", "jwt"];
/// Ends of a word after which the next word may be secret. The end `key` is missing: it is common in other texts.
const ENDS_OF_NAMES: [&str; 13] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "apikey",
    "api-key",
    "jwt",
];
/// Schemes of HTTP authentication (RFC 9110): the next word is secret, the scheme is not.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
/// Ends of a word with a colon or an equals sign, after which the next word may be secret.
const ENDS_OF_KEYS: [&str; 2] = ["auth", "pass"];
/// Words between a name and its value.
const LINKS: [&str; 2] = ["is", "was"];
/// Length of a run of letters and digits from which it may be a key or token, in bytes. Names of gates and fields that
/// are as long have no digit.
const MIN_KEY: usize = 40;
/// Longest part of a host name or of a field's path with four parts or more, in bytes.
const MAX_PART: usize = 32;

/// Replaces words that may be secret: keys and tokens, values after a name such as `token`, and the credentials and
/// queries of URLs. All of a text with a PEM block is replaced. The words are then separated by single spaces.
pub(crate) fn without_secrets(text: &str) -> String {
    if text.contains("-----BEGIN") {
        return NOT_SHOWN.to_owned();
    }
    let mut shown: Vec<String> = Vec::new();
    // Whether the word is a value, and the quote that ends it if it began before.
    let (mut is_value, mut quote) = (false, None);
    for word in text.split_whitespace() {
        let end = last_part(word);
        let is_scheme = SCHEMES.contains(&end.as_str());
        let is_link = !word.contains(char::is_alphanumeric) || LINKS.contains(&bare(word));
        if is_value && quote.is_none() && (is_link || is_scheme && !has_named_value(word)) {
            shown.push(word.to_owned());
            continue;
        }
        let continues = quote.is_some();
        let is_secret = is_value || continues || has_named_value(word) || has_user(word);
        quote = match quote {
            Some(quote) if word.contains(quote) => None,
            None if is_secret => opened_quote(word),
            same => same,
        };
        // The name of a file is not that of a value.
        let ends_with = |names: &[&str]| names.iter().any(|name| end.ends_with(name));
        let is_key = word.ends_with([':', '=']) && ends_with(&ENDS_OF_KEYS);
        is_value = is_scheme || (!word.contains('/') && (is_key || ends_with(&ENDS_OF_NAMES)));
        if !is_secret {
            shown.push(without_keys(&without_queries(word)));
        } else if !continues {
            shown.push(NOT_SHOWN.to_owned());
        }
    }
    shown.join(" ")
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| !letter.is_alphanumeric())
}

/// The letters, digits and dashes at the end of a word, in lower case: `x-token` for `"X_Token:`.
fn last_part(word: &str) -> String {
    let end = word.trim_end_matches(|letter: char| !letter.is_alphanumeric());
    let is_inside = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    end.rsplit(|letter| !is_inside(letter)).next().unwrap_or_default().to_lowercase().replace('_', "-")
}

/// The quote that a word opens and does not close.
fn opened_quote(word: &str) -> Option<char> {
    let end = word.trim_end_matches([',', ';', '.', ':', ')', ']', '}']);
    ['"', '\'', '`'].into_iter().find(|quote| end.matches(*quote).count() % 2 == 1 && !end.ends_with(*quote))
}

/// Reports whether a word has a value after a name that may be that of a secret: `X-Token:abc`, `{"password":"abc"}`,
/// `AWS_SECRET_ACCESS_KEY=abc`. The host of a URL is no name.
fn has_named_value(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let rest =
        lower.split_once("://").map_or(lower.as_str(), |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let is_quote = |letter: char| matches!(letter, '"' | '\'' | '`' | '\\');
    let follows = |after: &str| {
        let after =
            after.trim_start_matches(|letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        let value = after.trim_start_matches(is_quote).strip_prefix(['=', ':']);
        value.is_some_and(|value| value.contains(char::is_alphanumeric))
    };
    rest.contains("pass=") || PARTS_OF_NAMES.iter().any(|name| rest.split(name).skip(1).any(follows))
}

/// Reports whether a word may have a user and a password before a host, without the scheme of a URL.
fn has_user(word: &str) -> bool {
    !word.contains("://") && word.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Replaces the credentials and queries of a URL in a word. A word with several such URLs is replaced as a whole.
fn without_queries(word: &str) -> String {
    let bare = bare(word);
    match bare.matches("://").count() {
        0 => word.to_owned(),
        _ if !bare.contains(['@', '?', '#']) => word.to_owned(),
        1 => word.replace(bare, &without_credentials(bare)),
        _ => NOT_SHOWN.to_owned(),
    }
}

/// Replaces the parts of a word that may be keys or tokens.
fn without_keys(word: &str) -> String {
    let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '_' | '-' | '.');
    let parts = word.split_inclusive(|letter| !is_of_key(letter)).map(|part| {
        let run = part.trim_end_matches(|letter| !is_of_key(letter)).trim_matches('.');
        if may_be_key(run) { part.replace(run, NOT_SHOWN) } else { part.to_owned() }
    });
    parts.collect()
}

/// Reports whether letters and digits may be a key or a token: many, with a digit, and no path, host name, path of a
/// field or name of a cipher suite. Base64 has `/`, and letters of both cases. A JSON Web Token has three long parts.
fn may_be_key(run: &str) -> bool {
    let is_dotted = || run.split('.').count() >= 4 && run.split('.').all(|part| part.len() <= MAX_PART);
    if is_dotted() || run.starts_with("TLS_") {
        return false;
    }
    let has = |is: fn(&u8) -> bool| run.bytes().any(|byte| is(&byte));
    let is_path =
        || run.starts_with('/') || run.contains('.') || !(has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
    run.len() >= MIN_KEY && has(u8::is_ascii_digit) && !(run.contains('/') && is_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_words_that_may_be_secret() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0";
        let base64 = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        for (text, shown) in [
            (format!("sent {jwt} to it"), "sent (not shown) to it"),
            (format!("sent \"{jwt}\", failed"), "sent \"(not shown)\", failed"),
            (format!("x={base64}; y"), "x=(not shown); y"),
            (format!("jwt=\"{jwt}\""), "(not shown)"),
            (format!("sent {base64}1. Retry"), "sent (not shown). Retry"),
            (format!("AWS_SECRET_ACCESS_KEY={base64}"), "(not shown)"),
            ("see -----BEGIN RSA PRIVATE KEY----- abc".to_owned(), "(not shown)"),
        ] {
            assert_eq!(without_secrets(&text), shown, "{text}");
        }
        for (text, shown) in [
            ("Authorization: Bearer abc, then", "Authorization: Bearer (not shown) then"),
            ("Authorization:Bearer abc, then", "(not shown) (not shown) then"),
            ("header=\"Bearer abc\" next", "header=\"Bearer (not shown) next"),
            ("Authorization=Basic dXNlcjpwYXNz next", "(not shown) (not shown) next"),
            ("with password=abc set", "with (not shown) set"),
            ("bad X-Token:abc", "bad (not shown)"),
            ("X-Token: abc, then", "X-Token: (not shown) then"),
            ("username=svc,password=hunter2,vers=3.0", "(not shown)"),
            ("get /pods?a=1&token=hunter2 failed", "get (not shown) failed"),
            ("{\"password\":\"hunter2\"}", "(not shown)"),
            ("{\\\"password\\\":\\\"hunter2\\\"}", "(not shown)"),
            ("{\"kubernetes.io/secret/password\":\"aHVudGVyMg==\"}", "(not shown)"),
            ("{\"auth\":\"aHVudGVyMg==\"}", "(not shown)"),
            ("password = hunter2, then", "password = (not shown) then"),
            ("the token is abc then", "the token is (not shown) then"),
            ("the token is: abc then", "the token is: (not shown) then"),
            ("{ \"auth\": \"dXNlcjpodW50ZXIy\" }", "{ \"auth\": (not shown) }"),
            ("mount -o username=svc,pass=hunter2 /a", "mount -o (not shown) /a"),
            ("token: \"two words\", then", "token: (not shown) then"),
            ("password='two more words', then", "(not shown) then"),
            ("apiKey=abc passwd=abc api_key: abc", "(not shown) (not shown) api_key: (not shown)"),
            ("dial root:hunter2@db:5432 failed", "dial (not shown) failed"),
            ("get \"https://me:pw@host/pods?key=1\": EOF", "get (not shown) EOF"),
            ("get \"https://me:pw@host/pods?a=1\": EOF", "get \"https://(not shown)@host/pods?(not shown)\": EOF"),
            ("https://a:1/,https://root:pw@b:2", "(not shown)"),
            ("secret \"regcred\" not found", "secret (not shown) not found"),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
        }
    }

    #[test]
    fn keeps_other_words() {
        for text in [
            "open /var/lib/kubelet/pki/a-very-long-name-of-a-file-1.pem: no such file or directory",
            "open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory",
            "tls: private key does not match public key",
            "open /etc/kubernetes/pki/kubelet.key: permission denied",
            "resource.quantity \"12345678901234567890\"",
            "Get \"https://keycloak.example:8443/api/v1/nodes\": x509: certificate signed by unknown authority",
            "failed to pull registry.k8s.io/a/kube-controller-manager-amd64:v1.36.2",
            "k8s.io/client-go/informers/factory.go:160: failed to list *v1.Node: connection refused",
            "start user@1000.service: exit status 1",
            "node \"ip-10-0-12-34.eu-central-1.compute.internal\" not found",
            "lookup 0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com on 10.0.0.2:53: no such host",
            "Cipher suite TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 not supported",
            "Go struct field KubeletX509Authentication.authentication.x509.clientCAFile of type string",
            "code = Unavailable desc = \"transport: Error while dialing: dial unix /run/no.sock\"",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn named_value_never_remains(
            before in "[a-z \",:=@/\\\\]{0,12}",
            name in prop::sample::select(&["password", "X-Token", "client_secret", "apiKey", "passwd"][..]),
            separator in prop::sample::select(&["=", ":", ": ", " = ", "=\"", "\":\"", "\": \""][..]),
            after in "[ ,;\"}\\]][a-z \"=:]{0,12}",
        ) {
            let shown = without_secrets(&format!("{before} {name}{separator}hunter2{after}"));
            prop_assert!(!shown.contains("hunter2"), "{}", shown);
        }
    }
}
