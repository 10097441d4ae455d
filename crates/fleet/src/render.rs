//! Rendering of a pool's configuration: base, then the pool's own file, then patches in order.
//!
//! All files except JSON patches are merge patches (RFC 7396): maps merge key by key, lists replace, null removes. As
//! in the kubelet, null means "unset" everywhere, and maps of the result contain no null. Rendering adds no value
//! that no file sets, except reservations that follow from the size of a node.

use std::sync::Arc;

use super::fields::Located;
use super::own::Placed;
use super::{PoolTarget, PoolTargets, Rendered, Reserve, Sizes, kubelet_file, own};
use kubelet_config::Minor;
use kubelet_config::document::{
    Document, Node, PatchKind, Syntax, apply_json_patch, apply_merge_patch, kind_of_patch, without_nulls,
};
use kubelet_config::finding::{Finding, Place, Strictness};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, PoolName};

/// Files of a pool's configuration, in merge order.
#[derive(Clone)]
pub(super) struct Layers {
    /// Base and the pool's own file, both KubeletConfigurations; either may be missing.
    pub files: Vec<Arc<Document>>,
    /// Merge patches and JSON patches.
    pub patches: Vec<Arc<Document>>,
}

/// What names a configuration.
#[derive(Clone)]
pub(super) struct Named {
    pub fleet: FleetName,
    pub pool: PoolName,
    /// Stored in the result.
    pub path: String,
}

impl Named {
    /// The configuration with this content.
    pub(super) fn rendered(&self, document: Document) -> Rendered {
        let canonical = document.canonical();
        let hash = ContentHash::of(canonical.as_bytes());
        let config_map = hash.config_map(&self.fleet, &self.pool);
        Rendered { document, canonical, hash, config_map, path: self.path.clone() }
    }
}

/// Merges the files, and `reserved` between files and patches. Returns `None` if they do not merge, and adds a finding
/// unless the check of the file reported the error.
pub(super) fn merge(layers: &Layers, reserved: Option<&Node>, findings: &mut Vec<Finding>) -> Option<Document> {
    let mut node: Option<Node> = None;
    for file in &layers.files {
        // A root that is no map was reported when the file was checked.
        file.root.mapping()?;
        node = Some(apply_merge_patch(node, &file.root));
    }
    if let Some(reserved) = reserved {
        node = Some(apply_merge_patch(node, reserved));
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

/// Renders the configuration of a pool, for the typical machine if it depends on the size of the nodes. Checks it for
/// these kubelet versions, as nodes place it. Returns `None` if the files do not merge; errors of the merged
/// configuration are findings only.
pub(super) fn render(
    layers: Layers,
    reserve: Option<&Located<Reserve>>,
    named: Named,
    (minors, placed): (&[Minor], Placed<'_>),
    strictness: Strictness,
    findings: &mut Vec<Finding>,
) -> Option<(PoolTargets, Vec<Verdict>)> {
    let mut problems = Vec::new();
    let pool = named.pool.clone();
    let rendered = match reserve {
        None => merge(&layers, None, &mut problems).map(|document| {
            let target = PoolTarget::Config(Box::new(named.rendered(document.clone())));
            (PoolTargets::from(target), document)
        }),
        Some(reserve) => {
            let sizes = Sizes::new(layers, reserve, named, (minors, placed), &mut problems);
            sizes.map(|(sizes, document)| (sizes.into(), document))
        }
    };
    if let Some((_, document)) = &rendered {
        kubelet_file::check_header(document, &mut problems);
    }
    // Pools may share the files, so findings about the merge name the pool.
    for problem in &mut problems {
        problem.message = format!("pool {pool}: {}", problem.message);
    }
    let mut verdicts = Vec::new();
    if let Some((_, document)) = &rendered {
        kubelet_file::check(document, &mut problems);
        let checked = own::check(document, placed, minors);
        verdicts = checked.verdicts;
        problems.extend(checked.findings.into_iter().map(|finding| of_pool(finding, &pool, document)));
    }
    strictness.apply(&mut problems);
    // Values keep their positions, so findings of a file occur again here; `dedupe` removes them.
    findings.extend(problems);
    Some((rendered?.0, verdicts))
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
