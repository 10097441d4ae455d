//! Usage errors of clap, for both programs.

use std::ffi::OsString;

/// Reports whether invalid arguments request JSON output, so that the error is JSON too.
#[must_use]
pub fn asks_for_json(arguments: &[OsString]) -> bool {
    let texts: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let together = texts.iter().any(|text| matches!(*text, "-ojson" | "-o=json" | "--output=json"));
    together || texts.windows(2).any(|pair| matches!(pair, ["-o" | "--output", "json"]))
}

/// First paragraph of clap's error, on one line, without the usage text.
#[must_use]
pub fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    message.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_request_for_json_output() {
        let asks = |line: &str| asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in ["nodecfg -o json", "nodecfg x -ojson --y", "nodecfg --output json", "nodecfg --output=json"] {
            assert!(asks(line), "{line}");
        }
        assert!(!asks("nodecfg json -o yaml"));
    }
}
