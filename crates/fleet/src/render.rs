//! Rendering of a pool's configuration: base, then the pool's own file, then patches in order.
//!
//! All files except JSON patches are merge patches (RFC 7396): maps merge key by key, lists replace, null removes. As
//! in the kubelet, null means "unset" everywhere, and maps of the result contain no null. Rendering adds no value
//! that no file sets.

use std::sync::Arc;

use super::own::Placed;
use super::{Rendered, kubelet_file, own};
use kubelet_config::Minor;
use kubelet_config::document::{
    Document, Node, PatchKind, Syntax, apply_json_patch, apply_merge_patch, kind_of_patch, without_nulls,
};
use kubelet_config::finding::{Finding, Place, Strictness};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, PoolName};

/// Files of a pool's configuration, in merge order.
pub(super) struct Layers {
    /// Base and the pool's own file, both KubeletConfigurations; either may be missing.
    pub files: Vec<Arc<Document>>,
    /// Merge patches and JSON patches.
    pub patches: Vec<Arc<Document>>,
}

/// Merges the files. Returns `None` if they do not merge, and adds a finding unless the check of the file reported
/// the error.
pub(super) fn merge(layers: &Layers, findings: &mut Vec<Finding>) -> Option<Document> {
    let mut node: Option<Node> = None;
    for file in &layers.files {
        // A root that is no map was reported when the file was checked.
        file.root.mapping()?;
        node = Some(apply_merge_patch(node, &file.root));
    }
    for patch in &layers.patches {
        match kind_of_patch(&patch.root) {
            Ok(PatchKind::Merge) => node = Some(apply_merge_patch(node, &patch.root)),
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
            // Reported when the patch was checked.
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

/// Renders the configuration of a pool and checks it for these kubelet versions, as nodes place it. `path` is stored in
/// the result. Returns `None` if the files do not merge; errors of the merged configuration are findings only.
pub(super) fn render(
    layers: &Layers,
    fleet: &FleetName,
    pool: &PoolName,
    path: String,
    (minors, placed): (&[Minor], Placed<'_>),
    strictness: Strictness,
    findings: &mut Vec<Finding>,
) -> Option<(Rendered, Vec<Verdict>)> {
    let mut problems = Vec::new();
    let merged = merge(layers, &mut problems);
    if let Some(document) = &merged {
        kubelet_file::check_header(document, &mut problems);
    }
    // Pools may share the files, so findings about the merge name the pool.
    for problem in &mut problems {
        problem.message = format!("pool {pool}: {}", problem.message);
    }
    let mut verdicts = Vec::new();
    if let Some(document) = &merged {
        kubelet_file::check(document, &mut problems);
        let checked = own::check(document, placed, minors);
        verdicts = checked.verdicts;
        problems.extend(checked.findings.into_iter().map(|finding| of_pool(finding, pool, document)));
    }
    strictness.apply(&mut problems);
    // Values keep their positions, so findings of a file occur again here; `dedupe` removes them.
    findings.extend(problems);
    let document = merged?;
    let canonical = document.canonical();
    let hash = ContentHash::of(canonical.as_bytes());
    // Two DNS labels and ten characters stay below the limit of 253 for object names.
    let config_map = format!("{fleet}-{pool}-{}", hash.short());
    Some((Rendered { document, canonical, hash, config_map, path }, verdicts))
}

/// Adds the pool's name to a finding about the whole configuration, for example about a default of an unset field.
/// Does not change a finding about a value in a file.
fn of_pool(mut finding: Finding, pool: &PoolName, document: &Document) -> Finding {
    let whole = &document.root.place;
    let about_whole = |place: &Place| place.len == 0 && place.file == whole.file && place.offset == whole.offset;
    if finding.place.as_ref().is_none_or(about_whole) {
        finding.message = format!("pool {pool}: {}", finding.message);
    }
    finding
}
