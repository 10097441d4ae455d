//! Findings as GitHub Actions workflow commands, which annotate the affected lines.

use std::io;
use std::io::Write;

use super::{Batch, Location};
use crate::report::findings::affected_kubelets;
use kubelet_config::finding::{Finding, Severity};

/// Writes a command per error and warning, and per note if `verbose`. Notes are optional, because GitHub shows only
/// ten annotations of each kind per step.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, batch: &Batch<'_>, location: &Location, verbose: bool) -> io::Result<()> {
    for finding in batch.all().filter(|finding| verbose || finding.severity != Severity::Note) {
        writeln!(out, "{}", workflow_command(finding, batch.root, location))?;
    }
    Ok(())
}

fn workflow_command(finding: &Finding, root: &str, location: &Location) -> String {
    let name = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        properties.push(format!("file={}", escape_property(&location.of(root, &place.file))));
        properties.push(format!("line={}", place.line));
        properties.push(format!("col={}", place.column));
    }
    let title = match affected_kubelets(finding) {
        Some(kubelets) => format!("{} ({kubelets})", finding.code),
        None => finding.code.to_owned(),
    };
    properties.push(format!("title={}", escape_property(&title)));
    let text = match &finding.help {
        Some(help) => format!("{}\n{help}", finding.message),
        None => finding.message.clone(),
    };
    format!("::{name} {}::{}", properties.join(","), escape_data(&text))
}

/// Escapes the text after the second `::`.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property before the second `::`.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_config::Minor;
    use kubelet_config::finding::Place;

    #[test]
    fn escapes_special_characters() {
        let place = Place { line: 3, column: 7, ..Place::whole_file("pools/a,b/kubelet.yaml") };
        let finding = Finding::error("max-pods", "100%: no\n::error::x")
            .at(place)
            .kubelets([Minor(21), Minor(36)])
            .help("write: 5");
        let location = Location { current: "/w/sub".to_owned(), root: "/w".to_owned() };
        assert_eq!(
            workflow_command(&finding, "", &location),
            "::error file=sub/pools/a%2Cb/kubelet.yaml,line=3,col=7,title=max-pods (kubelets 1.21 and 1.36 refuse \
             it)::100%25: no%0A::error::x%0Awrite: 5"
        );
        let note = Finding::note("not-in-git", "x");
        assert_eq!(workflow_command(&note, "", &location), "::notice title=not-in-git::x");
    }

    #[test]
    fn writes_notes_only_if_verbose() {
        let findings = [Finding::warning("a", "x"), Finding::note("b", "y")];
        let batch = Batch { root: "", files: &[], findings: &findings, texts: &|_| None };
        let location = Location { current: "/w".to_owned(), root: "/w".to_owned() };
        let written = |verbose| {
            let mut out = Vec::new();
            write(&mut out, &batch, &location, verbose).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(false), "::warning title=a::x\n");
        assert_eq!(written(true), "::warning title=a::x\n::notice title=b::y\n");
    }
}
