//! Result of reading a snapshot, and its reduction to the pools that use given files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Desired, Pool};
use kubelet_config::finding::{Finding, Place, Severity};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::names::PoolName;

/// Result of reading a snapshot.
#[derive(Debug, Clone)]
pub struct Built {
    /// Desired state; `None` if a finding is an error.
    pub desired: Option<Desired>,
    /// All findings, in order.
    pub findings: Vec<Finding>,
    /// Verdicts of the kubelets per pool, also if other findings are errors. Local pools are missing, and so are
    /// pools that do not render, unless the reason is a `kubelet.yaml` that no kubelet can decode.
    pub checked: Vec<CheckedPool>,
    /// Paths of the files of each folder under `pools/`: those in it, and those that its `pool.yaml` names. An invalid
    /// `pool.yaml` names none.
    pub files: BTreeMap<String, BTreeSet<String>>,
}

/// Usable part of a snapshot despite errors, for comparisons only.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Pools that render; `None` if the fleet has no valid name.
    pub desired: Option<Desired>,
    /// Pools with a valid `pool.yaml` whose configuration does not render. Their target is a meaningless placeholder.
    pub claims: BTreeMap<PoolName, Pool>,
    /// All errors.
    pub errors: Vec<Finding>,
}

/// Verdicts of the kubelets on the configuration of one pool.
#[derive(Debug, Clone)]
pub struct CheckedPool {
    /// Name of the pool.
    pub name: PoolName,
    /// Path of its `kubelet.yaml`, or of its `pool.yaml` without one.
    pub path: String,
    /// Whether the pool declares kubelet versions.
    pub declared: bool,
    /// Verdicts, oldest version first.
    pub verdicts: Vec<Verdict>,
}

impl Built {
    /// Keeps the result for the pools that use a file at or below one of these paths, and findings about these paths.
    /// Also keeps errors without a place, which concern all pools.
    #[must_use]
    pub fn concerning(mut self, paths: &BTreeSet<String>) -> Self {
        self.files.retain(|_, files| files.iter().any(|file| is_below(file, paths)));
        let kept = |place: &Place| {
            is_below(&place.file, paths) || self.files.values().any(|files| files.contains(&*place.file))
        };
        self.findings.retain(|finding| match &finding.place {
            Some(place) => kept(place) || finding.related.iter().any(|(place, _)| kept(place)),
            None => finding.severity == Severity::Error,
        });
        self.checked.retain(|pool| self.files.contains_key(pool.name.as_str()));
        self.desired = None;
        self
    }
}

/// Reports whether a path, or a folder above it, is one of `paths`.
fn is_below(path: &str, paths: &BTreeSet<String>) -> bool {
    path.match_indices('/')
        .map(|(end, _)| path.get(..end).unwrap_or_default())
        .chain([path])
        .any(|at| paths.contains(at))
}

#[cfg(test)]
mod tests {
    use super::super::{Checks, build};
    use crate::snapshot::Snapshot;

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    /// Pools and codes of findings that concern these paths.
    fn concerned(paths: &[&str]) -> (Vec<String>, Vec<String>) {
        let pool = |name: &str, spec: &str| {
            format!(
                "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{kubelet: {spec}}}\n"
            )
        };
        let snapshot = Snapshot::of_texts([
            ("base/kubelet.yaml", HEAD),
            ("base/old.yaml", HEAD),
            ("pools/a/pool.yaml", pool("a", "{base: ../../base/kubelet.yaml, patches: [patch.yaml]}").as_str()),
            ("pools/a/patch.yaml", "maxPod: 5\n"),
            ("pools/ab/kubelet.yaml", format!("{HEAD}port: x\n").as_str()),
            ("pools/c/pool.yaml", pool("c", "{base: ../../base/kubelet.yaml, patches: [missing.yaml]}").as_str()),
            ("pools/c/spare.yaml", "maxPods: 5\n"),
        ]);
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let built = build(&snapshot, &Checks::default()).concerning(&paths);
        (built.files.into_keys().collect(), built.findings.iter().map(|finding| finding.code.to_owned()).collect())
    }

    #[test]
    fn keeps_pools_that_use_the_files() {
        for (paths, pools, codes) in [
            (&["base/kubelet.yaml"][..], &["a", "c"][..], &["unknown-field", "bad-path", "unused-file"][..]),
            (&["pools/a"], &["a"], &["unknown-field"]),
            (&["pools/a/patch.yaml"], &["a"], &["unknown-field"]),
            (&["pools/ab/kubelet.yaml"], &["ab"], &["wrong-type"]),
            (&["pools/c/spare.yaml"], &["c"], &["bad-path", "unused-file"]),
            (&["pools"], &["a", "ab", "c"], &["unknown-field", "wrong-type", "bad-path", "unused-file"]),
            (&["base/old.yaml"], &[], &["unused-file"]),
            (&["elsewhere.yaml"], &[], &[]),
        ] {
            let (found_pools, found_codes) = concerned(paths);
            assert_eq!(
                (found_pools, found_codes),
                (pools.iter().map(|s| (*s).to_owned()).collect(), codes.iter().map(|s| (*s).to_owned()).collect()),
                "{paths:?}"
            );
        }
    }
}
