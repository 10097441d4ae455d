//! Renders the configuration of a pool: base, then the pool's own file, then patches in order.
//!
//! All of them but JSON patches are merge patches (RFC 7386) over nothing: maps merge key by key, lists replace, null
//! removes. A null therefore means "not set" wherever it stands, as it does to the kubelet, and no null is left in a map
//! of the result, whether it came from a base, a patch or a JSON patch. Nothing is added that no file says.

use std::sync::Arc;

use super::Rendered;
use super::checked::check_document;
use super::kubelet_file;
use kubelet_config::Minor;
use kubelet_config::document::{
    Document, Node, PatchKind, Syntax, apply_json_patch, kind_of_patch, lay_over, without_nulls,
};
use kubelet_config::finding::{Finding, Place, Strictness};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, PoolName};

/// The files of a pool's configuration, in the order in which they are laid over each other.
pub(super) struct Layers {
    /// Base and the pool's own file: both KubeletConfigurations, the first of them whole.
    pub files: Vec<Arc<Document>>,
    /// Patches of either kind.
    pub patches: Vec<Arc<Document>>,
    /// Where all of them are in the snapshot.
    pub paths: Vec<String>,
}

/// Lays the files over each other. `None` when an error was found.
pub(super) fn merge(layers: &Layers, findings: &mut Vec<Finding>) -> Option<Document> {
    let mut node: Option<Node> = None;
    for file in &layers.files {
        // What is no map was found when the file was checked.
        file.root.mapping()?;
        node = Some(lay_over(node, &file.root));
    }
    for patch in &layers.patches {
        match kind_of_patch(&patch.root) {
            Ok(PatchKind::Merge) => node = Some(lay_over(node, &patch.root)),
            Ok(PatchKind::Json) => {
                let target = node.take().unwrap_or_else(|| Node::empty_mapping(patch.root.place.clone()));
                match apply_json_patch(target, &patch.root) {
                    Ok(patched) => node = Some(patched),
                    Err(problems) => {
                        findings.extend(problems);
                        return None;
                    }
                }
            }
            // Found when the patch was checked.
            Err(_) => return None,
        }
    }
    let document = Document { root: without_nulls(node?), syntax: Syntax::Yaml };
    if let Some(problem) = document.check_bounds() {
        findings.push(problem);
        return None;
    }
    Some(document)
}

/// Renders the configuration of a pool, and asks what kubelets of these versions do with it. `None` when the files do not
/// make one; what is wrong with the one that they make is a finding.
pub(super) fn render(
    layers: &Layers,
    fleet: &FleetName,
    pool: &PoolName,
    path: String,
    minors: &[Minor],
    gate: Strictness,
    findings: &mut Vec<Finding>,
) -> Option<(Rendered, Vec<Verdict>)> {
    let mut problems = Vec::new();
    let merged = merge(layers, &mut problems);
    if let Some(document) = &merged {
        kubelet_file::check_header(document, &mut problems);
    }
    // These concern the whole, and the files of several pools may be the same.
    for problem in &mut problems {
        problem.message = format!("pool {pool}: {}", problem.message);
    }
    let mut verdicts = Vec::new();
    if let Some(document) = &merged {
        kubelet_file::check(document, &mut problems);
        let checked = check_document(document, minors);
        verdicts = checked.verdicts;
        problems.extend(checked.findings.into_iter().map(|finding| of_pool(finding, pool, document)));
    }
    gate.apply(&mut problems);
    // Values keep their places, so that what was found in a file is found again here; `told_once` drops it in the end.
    findings.extend(problems);
    let document = merged?;
    let canonical = document.canonical();
    let hash = ContentHash::of(canonical.as_bytes());
    // Two DNS labels and ten characters stay far below the 253 of an object name.
    let config_map = format!("{fleet}-{pool}-{}", hash.short());
    Some((Rendered { document, canonical, hash, config_map, path }, verdicts))
}

/// Names the pool where a finding is about the whole, such as a default of what no file says. What a file says is found
/// there, whichever pools use it.
fn of_pool(mut finding: Finding, pool: &PoolName, document: &Document) -> Finding {
    let whole = &document.root.place;
    let about_whole = |place: &Place| place.len == 0 && place.file == whole.file && place.offset == whole.offset;
    if finding.place.as_ref().is_none_or(about_whole) {
        finding.message = format!("pool {pool}: {}", finding.message);
    }
    finding
}
