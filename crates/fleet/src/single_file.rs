//! Check of one file without the repository around it: a KubeletConfiguration, a Fleet, a NodePool, or a patch.

use super::checked::{Checked, check_document, dedupe, redact, undecodable_verdicts};
use super::formats::{FLEET, GROUP, NODE_POOL};
use super::kubelet_file;
use crate::formats::read;
use kubelet_config::document::{
    Document, Node, Parsed, Syntax, Unread, json_patch_additions, json_patch_problems, kind_of_patch,
};
use kubelet_config::finding::{Finding, Place, Strictness, limited, nearest};
use kubelet_config::verdict::dropped_fields;
use kubelet_config::{API_VERSION, KIND, Minor};

/// What a file contains, decided by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Kubelet,
    Fleet,
    NodePool,
    MergePatch,
    JsonPatch,
}

impl Content {
    fn of(root: &Node) -> Self {
        let Some(map) = root.mapping() else {
            let is_patch = root.sequence().is_some_and(|items| !items.is_empty()) && kind_of_patch(root).is_ok();
            return if is_patch { Self::JsonPatch } else { Self::Kubelet };
        };
        let text = |key: &str| root.get(key).and_then(Node::text);
        let is_ours = text("apiVersion").is_some_and(|version| version.split('/').next() == Some(GROUP));
        match text("kind") {
            Some(FLEET) => Self::Fleet,
            Some(NODE_POOL) => Self::NodePool,
            kind if is_ours => match kind.and_then(|kind| nearest(kind, [FLEET, NODE_POOL])) {
                Some(FLEET) => Self::Fleet,
                _ => Self::NodePool,
            },
            _ => {
                // The kubelet accepts both keys in any case.
                let has = |name: &str| map.keys().any(|key| key.eq_ignore_ascii_case(name));
                if map.is_empty() || has("apiVersion") || has("kind") { Self::Kubelet } else { Self::MergePatch }
            }
        }
    }
}

/// Checks the text of a file by itself. Only a complete KubeletConfiguration has verdicts. A patch is checked for
/// unknown fields and wrong types. The files that a NodePool names are not read.
#[must_use]
pub fn check_file(name: &str, text: &str, minors: &[Minor], strictness: Strictness) -> Checked {
    let Parsed { document, findings: mut found, unread } = Document::parse(name, text);
    let Some(document) = document else {
        let verdicts = if unread == Some(Unread::Malformed) { undecodable_verdicts(minors) } else { Vec::new() };
        strictness.apply(&mut found);
        let mut found = limited(found);
        redact(&mut found, |_| Some(text));
        return Checked { verdicts, findings: found };
    };
    let mut verdicts = Vec::new();
    match Content::of(&document.root) {
        Content::Fleet => drop(read::fleet(&document, &mut found)),
        Content::NodePool => drop(read::node_pool(&document, None, &mut found)),
        Content::Kubelet => {
            kubelet_file::check_header(&document, &mut found);
            kubelet_file::check(&document, &mut found);
            let rendered = check_document(&document, minors);
            found.extend(rendered.findings);
            verdicts = rendered.verdicts;
            strictness.apply(&mut found);
        }
        Content::MergePatch => {
            kubelet_file::check(&document, &mut found);
            found.extend(dropped_fields(&document, minors));
            strictness.apply(&mut found);
            found.push(without_header(name));
        }
        Content::JsonPatch => {
            found.extend(json_patch_problems(&document.root));
            for addition in json_patch_additions(&document.root) {
                let addition = Document { root: addition, syntax: Syntax::Yaml };
                kubelet_file::check(&addition, &mut found);
                found.extend(dropped_fields(&addition, minors));
            }
            strictness.apply(&mut found);
        }
    }
    let mut findings = dedupe(found);
    redact(&mut findings, |_| Some(text));
    Checked { verdicts, findings }
}

/// The file is most likely a patch, but may also be a configuration whose header was forgotten.
fn without_header(name: &str) -> Finding {
    Finding::warning(
        "checked-as-patch",
        format!("{name} has neither `apiVersion` nor `kind`: it is checked as a patch"),
    )
    .at(Place::whole_file(name))
    .help(format!("if a kubelet reads this file, write apiVersion: {API_VERSION} and kind: {KIND}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<(&'static str, usize)> {
        let checked = check_file("a.yaml", text, &[Minor(36)], Strictness::Strict);
        checked.findings.iter().map(|f| (f.code, f.place.as_ref().map_or(0, |place| place.line))).collect()
    }

    #[test]
    fn recognizes_files_by_their_content() {
        let pool = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\n";
        let fleet = pool.replace("NodePool", "Fleet");
        assert_eq!(codes(pool), []);
        assert_eq!(codes(&fleet), []);
        assert_eq!(codes(&format!("{pool}spec: {{rollout: {{pased: true}}}}\n")), [("unknown-field", 4)]);
        assert_eq!(codes(&format!("{fleet}spec: {{kubelet: {{base: a.yaml}}}}\n")), [("unknown-field", 4)]);
        assert_eq!(codes(&pool.replace("NodePool", "NodePol")), [("wrong-kind", 2)]);
        assert_eq!(codes(&pool.replace("gpu", "G_PU")), [("bad-name", 3)]);
        assert_eq!(codes("maxPods: 50\n"), [("checked-as-patch", 1)]);
        assert_eq!(codes("maxPod: 50\n"), [("unknown-field", 1), ("checked-as-patch", 1)]);
        assert_eq!(codes("{}\n"), [("api-version", 1), ("kind", 1)]);
    }

    #[test]
    fn checks_a_json_patch_alone() {
        assert_eq!(codes("- {op: replace, path: /maxPods, value: 50}\n- {op: remove, path: /port}\n"), []);
        assert_eq!(
            codes("- {op: test, path: /maxPods, value: 1}\n- {op: add, path: /clusterDNS/0, value: 1.2.3.4}\n"),
            []
        );
        assert_eq!(codes("- {op: replace, path: /maxPods, value: '50'}\n"), [("wrong-type", 1)]);
        assert_eq!(codes("- {op: add, path: /logging/flushFreq, value: 5s}\n"), [("unknown-field", 1)]);
        assert_eq!(codes("- {op: add, path: maxPods, value: 50}\n"), [("bad-patch", 1)]);
    }
}
