//! Construction of the desired state from a snapshot: finds, reads and renders the pools, and reports all errors at once.
//!
//! Rules: without `nodecfg.yaml`, the fleet is `default`. A base affects only the pools that name it. A repository
//! without pools only causes a warning here, because planning knows whether the cluster has nodes at risk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::checked::{Checks, Kubelets, bound, dedupe, redact, undecodable_verdicts};
use crate::fields::Located;
use crate::formats::{DEFAULT_FLEET, FleetSpec, NodePoolSpec, pool_order, proposals, read, report_too_many, too_short};
use crate::own::Placed;
use crate::render::{Layers, Named, render};
use crate::snapshot::{Snapshot, SnapshotFile};
use crate::{Desired, OwnConfig, Pool, PoolTarget, PoolTargets, RolloutPolicy, kubelet_file};
use kubelet_config::document::{Document, PatchKind, Unread, kind_of_patch};
use kubelet_config::finding::{Finding, Place, Proposals, Severity, Strictness, any_error};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{FleetName, PoolName};

/// Name of the fleet file.
pub const FLEET_FILE: &str = "nodecfg.yaml";
/// Folder of the pools, one folder each.
pub const POOLS_FOLDER: &str = "pools";

/// Maximum bytes of the configurations of all pools. Pools may share large files, so the sum of all files does not limit
/// it. The first pool beyond is reported, and no further one is rendered.
const MAX_RENDERED: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Reads the usable part of a snapshot.
#[must_use]
pub fn draft(snapshot: &Snapshot, gate: Strictness) -> Draft {
    let (desired, claims, Built { findings, .. }) = read_all(snapshot, &Checks { gate, kubelets: Kubelets::OfNodes });
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    Draft { desired, claims, errors }
}

/// Reads the desired state of a snapshot, with all findings including those of the snapshot.
#[must_use]
pub fn build(snapshot: &Snapshot, checks: &Checks) -> Built {
    let (desired, _, built) = read_all(snapshot, checks);
    Built { desired: desired.filter(|_| !any_error(&built.findings)), ..built }
}

fn read_all(snapshot: &Snapshot, checks: &Checks) -> (Option<Desired>, BTreeMap<PoolName, Pool>, Built) {
    let mut files = Files::new(snapshot, checks);
    let desired = files.desired();
    files.report_unused();
    // Several pools may report the same finding on a shared file.
    let mut findings = dedupe(files.findings);
    redact(&mut findings, |file| snapshot.text(file).map(AsRef::as_ref));
    (desired, files.claims, Built { desired: None, findings, checked: files.pools, files: files.of_folders })
}

/// Files of a snapshot, each parsed and reported once.
struct Files<'s> {
    snapshot: &'s Snapshot,
    checks: &'s Checks,
    read: BTreeMap<String, Option<Arc<Document>>>,
    checked: BTreeSet<String>,
    findings: Vec<Finding>,
    pools: Vec<CheckedPool>,
    /// See [`Draft::claims`].
    claims: BTreeMap<PoolName, Pool>,
    /// Files that no kubelet can decode.
    malformed: BTreeSet<String>,
    /// See [`Built::files`].
    of_folders: BTreeMap<String, BTreeSet<String>>,
    /// Whether the files that a pool names are unknown.
    unread_pools: bool,
    /// Pools that each pool waits for.
    order: pool_order::References,
    /// Bytes of the configurations of all pools so far.
    rendered: usize,
    /// The proposals for paths that do not exist.
    proposals: Proposals,
}

impl<'s> Files<'s> {
    fn new(snapshot: &'s Snapshot, checks: &'s Checks) -> Self {
        Self {
            snapshot,
            checks,
            read: BTreeMap::new(),
            checked: BTreeSet::new(),
            findings: snapshot.findings.clone(),
            pools: Vec::new(),
            claims: BTreeMap::new(),
            malformed: BTreeSet::new(),
            of_folders: BTreeMap::new(),
            unread_pools: false,
            order: pool_order::References::new(),
            rendered: 0,
            proposals: Proposals::default(),
        }
    }

    fn desired(&mut self) -> Option<Desired> {
        let (name, spec) = self.fleet();
        // Without a valid fleet name, pools are still rendered to find their errors.
        let config_map_fleet = name.clone().or_else(|| FleetName::new(DEFAULT_FLEET).ok())?;
        let folders = self.pool_folders();
        if folders.is_empty() {
            self.findings.push(
                Finding::warning("no-pools", "the repository has no pools")
                    .help("a pool is a folder pools/<pool> with a kubelet.yaml or a pool.yaml in it"),
            );
        }
        let mut pools = BTreeMap::new();
        for folder in folders {
            let prefix = format!("pools/{folder}/");
            let inside = self.snapshot.below(&prefix).cloned();
            let fleet_file = self.snapshot.files.contains_key(FLEET_FILE).then(|| FLEET_FILE.to_owned());
            self.of_folders.insert(folder.clone(), inside.chain(fleet_file).collect());
            match PoolName::new(&folder) {
                Ok(pool_name) => {
                    let before = self.findings.len();
                    if let Some(pool) = self.pool(&config_map_fleet, &spec, pool_name.clone()) {
                        pools.insert(pool_name, pool);
                    }
                    bound(&mut self.findings, before);
                }
                Err(error) => {
                    let place = self.first_file(&prefix);
                    self.use_is_unknown(&prefix);
                    let help = match proposals::dns_label(&folder) {
                        Some(name) => format!("rename the folder to pools/{name}"),
                        None => "rename the folder under pools/".to_owned(),
                    };
                    self.findings.push(Finding::error("bad-name", error.to_string()).at(place).help(help));
                }
            }
        }
        self.findings.extend(equal_selectors(&pools));
        let known = self.of_folders.keys().filter_map(|folder| PoolName::new(folder).ok()).collect();
        self.findings.extend(pool_order::check(&self.order, &known));
        Some(Desired {
            fleet: name?,
            namespace: spec.namespace,
            max_unavailable: spec.max_unavailable,
            pool_pointers: spec.pool_pointers,
            paused: spec.paused,
            commit: self.snapshot.commit.clone(),
            uncommitted: self.snapshot.uncommitted,
            pools,
        })
    }

    /// Without a valid pool, the use of the files in its folder and of bases is unknown, so none is reported as unused.
    fn use_is_unknown(&mut self, prefix: &str) {
        self.unread_pools = true;
        for path in self.snapshot.below(prefix) {
            self.read.entry(path.clone()).or_insert(None);
        }
    }

    fn fleet(&mut self) -> (Option<FleetName>, FleetSpec) {
        if !self.snapshot.files.contains_key(FLEET_FILE) {
            return (FleetName::new(DEFAULT_FLEET).ok(), FleetSpec::default());
        }
        let file = self.document(FLEET_FILE).and_then(|document| read::fleet(&document, &mut self.findings));
        file.map_or_else(|| (None, FleetSpec::default()), |(spec, name)| (Some(name), spec))
    }

    /// Folders under `pools/`. Reports entries under `pools/`, or `pools` itself, that cannot be read.
    fn pool_folders(&mut self) -> BTreeSet<String> {
        let mut folders = BTreeSet::new();
        for (path, file) in &self.snapshot.files {
            match (path.strip_prefix("pools/").map(|rest| rest.split_once('/')), file) {
                (Some(Some((folder, _))), _) => {
                    folders.insert(folder.to_owned());
                }
                // A folder that cannot be read, for example a submodule.
                (Some(None), SnapshotFile::Unusable(finding)) => self.findings.push((**finding).clone()),
                _ => {}
            }
        }
        if let Some(SnapshotFile::Unusable(finding)) = self.snapshot.files.get(POOLS_FOLDER) {
            self.findings.push((**finding).clone());
        }
        folders
    }

    fn pool(&mut self, fleet: &FleetName, defaults: &FleetSpec, name: PoolName) -> Option<Pool> {
        let folder = format!("pools/{name}");
        let (pool_path, kubelet_path) = (format!("{folder}/pool.yaml"), format!("{folder}/kubelet.yaml"));
        let has = |path: &str| self.snapshot.files.contains_key(path);
        let (has_pool, has_kubelet) = (has(&pool_path), has(&kubelet_path));
        let place = Place::whole_file(if has_pool { pool_path.as_str() } else { kubelet_path.as_str() });
        let (spec, valid) = if has_pool { self.pool_file(&pool_path, &name) } else { (NodePoolSpec::default(), true) };
        let Some(spec) = Some(spec).filter(|_| valid) else {
            if has_kubelet {
                self.config_file(&kubelet_path);
            }
            self.use_is_unknown(&format!("{folder}/"));
            return None;
        };
        let fleet_file = has(FLEET_FILE).then(|| FLEET_FILE.to_owned());
        let mut files: BTreeSet<String> = fleet_file.into_iter().chain(has_pool.then(|| pool_path.clone())).collect();
        let own = self.own(&folder, &spec, defaults, &mut files);
        let placement = spec.kubelet.placement.or(defaults.kubelet.placement);
        let placed = Placed { placement, own: own.as_ref().map(|own| &*own.document) };
        let targets = self.targets(fleet, &name, &spec, placed, &mut files);
        self.of_folders.entry(name.to_string()).or_default().extend(files.iter().cloned());
        let selector = spec.node_selector.as_ref().map(|selector| selector.0.clone());
        let selector = selector.unwrap_or_else(|| LabelSelector::of_label(POOL_LABEL, name.as_str()));
        let (own_kubelet, fleet_kubelet) = (&spec.kubelet, &defaults.kubelet);
        let removed = own_kubelet.accept_removed.iter().chain(&fleet_kubelet.accept_removed);
        let overridden = own_kubelet.accept_overridden.iter().chain(&fleet_kubelet.accept_overridden);
        let policy = RolloutPolicy {
            accept_removed: removed.map(|field| field.0.clone()).collect(),
            accept_overridden: overridden.map(|field| field.0.clone()).collect(),
            fleet_paused: defaults.paused,
            ..spec.rollout.policy(&defaults.rollout)
        };
        self.order.insert(name.clone(), spec.rollout.after.clone());
        let windows = spec.rollout.windows.as_ref().or(defaults.rollout.windows.as_ref());
        self.findings.extend(windows.and_then(|windows| Some(too_short(&policy)?.at(windows.place.clone()))));
        report_too_many(&policy, &place, &mut self.findings);
        if spec.rollout.soak.is_some() && spec.rollout.steps.is_none() && defaults.rollout.steps.is_none() {
            let message = "`spec.rollout.soak` is the time after a step, and the pool has no steps";
            let help = "write steps: [1, 10%], or write the soak time of canaries: canary: {nodes: 1, soak: 10m}";
            let finding = Finding::error("bad-value", message).at(place.clone()).field("spec.rollout.soak");
            self.findings.push(finding.help(help));
        }
        let complete = targets.is_some();
        let pool = Pool {
            name,
            selector,
            named: None,
            priority: spec.priority,
            policy,
            targets: targets.unwrap_or_else(|| PoolTarget::Local.into()),
            placement,
            own,
            require_nodes: spec.require_nodes,
            kubelets: spec.kubernetes_version.0,
            place,
            files,
        };
        if complete {
            return Some(pool);
        }
        self.claims.insert(pool.name.clone(), pool);
        None
    }

    /// What the nodes of a pool should run. Adds the files of a rendered configuration to `files`. `None` if the pool has no
    /// configuration or it does not render.
    fn targets(
        &mut self,
        fleet: &FleetName,
        name: &PoolName,
        spec: &NodePoolSpec,
        placed: Placed<'_>,
        files: &mut BTreeSet<String>,
    ) -> Option<PoolTargets> {
        let folder = format!("pools/{name}");
        let (pool_path, kubelet_path) = (format!("{folder}/pool.yaml"), format!("{folder}/kubelet.yaml"));
        let has = |path: &str| self.snapshot.files.contains_key(path);
        let (has_pool, has_kubelet) = (has(&pool_path), has(&kubelet_path));
        if spec.kubelet.local {
            if has_kubelet {
                // The file is unused, but its errors are reported.
                let minors = self.checks.kubelets.among(&spec.kubernetes_version.0);
                if let Some(layers) = self.layers(&folder, spec, Some(kubelet_path.as_str()), &mut BTreeSet::new()) {
                    let named = Named { fleet: fleet.clone(), pool: name.clone(), path: kubelet_path };
                    let _ = render(layers, None, named, (minors, placed), self.checks.gate, &mut self.findings);
                }
            } else {
                self.report_local(&folder, spec);
            }
            Some(PoolTarget::Local.into())
        } else if !has_kubelet && spec.kubelet.base.is_none() && spec.kubelet.patches.is_empty() {
            let place =
                if has_pool { Place::whole_file(pool_path.as_str()) } else { self.first_file(&format!("{folder}/")) };
            let help = format!(
                "write {kubelet_path}, or set spec.kubelet.base, or set spec.kubelet.local: true in {pool_path}"
            );
            let message = format!("pool {name} has no KubeletConfiguration");
            self.findings.push(Finding::error("no-configuration", message).at(place).help(help));
            None
        } else {
            let minors = self.checks.kubelets.among(&spec.kubernetes_version.0);
            let declared = !spec.kubernetes_version.0.is_empty();
            let layers = self.layers(&folder, spec, has_kubelet.then_some(kubelet_path.as_str()), files);
            if layers.is_none() && self.malformed.contains(&kubelet_path) {
                // No kubelet can decode the file, so the verdicts need no merge.
                let verdicts = undecodable_verdicts(minors);
                self.pools.push(CheckedPool { name: name.clone(), path: kubelet_path.clone(), declared, verdicts });
            }
            let (layers, path) = (layers?, if has_kubelet { kubelet_path } else { pool_path });
            // A patch that is named again and again takes the time of its merge each time.
            let merged = layers.patches.iter().filter_map(|patch| self.snapshot.text(&patch.root.place.file));
            let merged = merged.map(|text| text.len()).sum();
            if self.rendered > MAX_RENDERED || !self.renders(merged, &path) {
                return None;
            }
            let named = Named { fleet: fleet.clone(), pool: name.clone(), path };
            let (checks, reserve) = ((minors, placed), spec.kubelet.reserve.as_ref());
            let (targets, verdicts) = render(layers, reserve, named, checks, self.checks.gate, &mut self.findings)?;
            let target = Arc::clone(targets.typical());
            let rendered = target.rendered()?;
            self.renders(rendered.canonical.len(), &rendered.path);
            self.pools.push(CheckedPool { name: name.clone(), path: rendered.path.clone(), declared, verdicts });
            Some(targets)
        }
    }

    /// Counts bytes that are merged or rendered for the pool of this file. `false`, with a finding: they are too many.
    fn renders(&mut self, bytes: usize, path: &str) -> bool {
        self.rendered = self.rendered.saturating_add(bytes);
        let fits = self.rendered <= MAX_RENDERED;
        if !fits {
            let message =
                format!("the configurations and patches of all pools have more than {MAX_RENDERED} bytes together");
            let finding = Finding::error("too-much-text", message).at(Place::whole_file(path));
            self.findings.push(finding.help("move pools into another repository"));
        }
        fits
    }

    /// Content of a `pool.yaml`, and whether it has no errors.
    fn pool_file(&mut self, path: &str, name: &PoolName) -> (NodePoolSpec, bool) {
        let before = self.findings.len();
        let spec = self.document(path).and_then(|d| read::node_pool(&d, Some(name), &mut self.findings));
        let valid = spec.is_some() && !any_error(self.findings.get(before..).unwrap_or_default());
        (spec.unwrap_or_default(), valid)
    }

    fn report_local(&mut self, folder: &str, spec: &NodePoolSpec) {
        for Located { value: path, place } in spec.kubelet.base.iter().chain(&spec.kubelet.patches) {
            // Naming the file again would not make it used.
            if let Some(file) = proposals::resolved(folder, path) {
                self.read.entry(file).or_insert(None);
            }
            let finding = Finding::warning("local-ignores", format!("{path} is not used: the pool is local"));
            self.findings.push(finding.at(place.clone()).help("remove it, or remove `local: true`"));
        }
        if let Some(Located { place, .. }) = &spec.kubelet.reserve {
            let finding = Finding::warning("local-ignores", "reserve is not used: the pool is local");
            self.findings.push(finding.at(place.clone()).help("remove it, or remove `local: true`"));
        }
    }

    /// The own configuration of a pool's nodes. Adds its path to `paths`.
    fn own(
        &mut self,
        folder: &str,
        spec: &NodePoolSpec,
        defaults: &FleetSpec,
        paths: &mut BTreeSet<String>,
    ) -> Option<OwnConfig> {
        let of_pool = spec.kubelet.own.as_ref().map(|own| (folder, own));
        let (folder, own) = of_pool.or_else(|| Some(("", defaults.kubelet.own.as_ref()?)))?;
        let path = self.referred(folder, own)?;
        paths.insert(path.clone());
        Some(OwnConfig { document: self.config_file(&path)?, path })
    }

    /// Checked files of a pool's configuration; `None` if a reference is invalid or a file is unreadable. Errors of
    /// fields are findings and do not prevent the merge. Adds the paths of existing files to `paths`.
    fn layers(
        &mut self,
        folder: &str,
        spec: &NodePoolSpec,
        kubelet: Option<&str>,
        paths: &mut BTreeSet<String>,
    ) -> Option<Layers> {
        let mut complete = true;
        let (mut files, mut patches) = (Vec::new(), Vec::new());
        let base = spec.kubelet.base.as_ref().map(|base| self.referred(folder, base));
        for path in base.into_iter().chain(kubelet.map(|path| Some(path.to_owned()))) {
            paths.extend(path.clone());
            match path.and_then(|path| self.config_file(&path)) {
                Some(document) => files.push(document),
                None => complete = false,
            }
        }
        for patch in &spec.kubelet.patches {
            let path = self.referred(folder, patch);
            paths.extend(path.clone());
            match path.and_then(|path| self.patch(&path)) {
                Some(document) => patches.push(document),
                None => complete = false,
            }
        }
        complete.then_some(Layers { files, patches })
    }

    /// Path from the root of a file that a file in `folder` refers to. `None`, with a finding, if the reference is
    /// invalid or the file is missing.
    fn referred(&mut self, folder: &str, file: &Located<String>) -> Option<String> {
        let (snapshot, proposals) = (self.snapshot, &self.proposals);
        let bad = |message: String, otherwise: &str| {
            let near = proposals.take().then(|| proposals::path(&snapshot.files, folder, &file.value)).flatten();
            let help = near.map_or_else(|| otherwise.to_owned(), |near| format!("write {near}"));
            Finding::error("bad-path", message).at(file.place.clone()).help(help)
        };
        if file.value.starts_with('/') {
            let message = format!("{:?} is an absolute path", file.value);
            self.findings.push(bad(message, "write a path from the folder of this file"));
            return None;
        }
        let Some(path) = proposals::resolved(folder, &file.value) else {
            let message = format!("{:?} leaves the root of the configuration", file.value);
            self.findings.push(bad(message, "keep every file that a pool needs under the root"));
            return None;
        };
        if self.snapshot.files.contains_key(&path) {
            return Some(path);
        }
        // A parent folder may be unreadable, for example a submodule.
        let mut above = path.as_str();
        while let Some((folder, _)) = above.rsplit_once('/') {
            if let Some(SnapshotFile::Unusable(finding)) = self.snapshot.files.get(folder) {
                self.findings.push((**finding).clone().related(file.place.clone(), "needed here"));
                return None;
            }
            above = folder;
        }
        let help = "add the file, or remove the path; nodecfg reads files that end in .yaml, .yml or .json, and of a git \
                    repository only committed ones";
        self.findings.push(bad(format!("{:?} does not exist: {path} is missing", file.value), help));
        None
    }

    /// Reads a KubeletConfiguration. Checks its fields on the first reading.
    fn config_file(&mut self, path: &str) -> Option<Arc<Document>> {
        let before = self.findings.len();
        let document = self.document(path);
        if let Some(document) = &document
            && self.checked.insert(path.to_owned())
        {
            kubelet_file::check(document, &mut self.findings);
        }
        self.apply_strictness(before);
        document
    }

    /// Reads a patch. Checks the fields of a merge patch on the first reading; the additions of a JSON patch are
    /// checked in the merged configuration.
    fn patch(&mut self, path: &str) -> Option<Arc<Document>> {
        let before = self.findings.len();
        let document = self.document(path);
        if let Some(document) = &document
            && self.checked.insert(path.to_owned())
        {
            match kind_of_patch(&document.root) {
                Ok(PatchKind::Merge) => kubelet_file::check(document, &mut self.findings),
                Ok(PatchKind::Json) => {}
                Err(finding) => self.findings.push(*finding),
            }
        }
        self.apply_strictness(before);
        document
    }

    /// Applies the strictness to the findings since `before`.
    fn apply_strictness(&mut self, before: usize) {
        self.checks.gate.apply(self.findings.get_mut(before..).unwrap_or_default());
    }

    /// A file as a document. Findings are reported on the first reading.
    fn document(&mut self, path: &str) -> Option<Arc<Document>> {
        if let Some(document) = self.read.get(path) {
            return document.clone();
        }
        let document = match self.snapshot.files.get(path)? {
            SnapshotFile::Unusable(finding) => {
                self.findings.push((**finding).clone());
                None
            }
            SnapshotFile::Text(text) => {
                let parsed = Document::parse(path, text);
                self.findings.extend(parsed.findings);
                if parsed.unread == Some(Unread::Malformed) {
                    self.malformed.insert(path.to_owned());
                }
                parsed.document.map(Arc::new)
            }
        };
        self.read.insert(path.to_owned(), document.clone());
        document
    }

    fn first_file(&self, prefix: &str) -> Place {
        Place::whole_file(self.snapshot.below(prefix).next().map_or(prefix, String::as_str))
    }

    /// Warns about a `nodecfg.yml`, and about files under `base/` and `pools/`, that nothing uses.
    fn report_unused(&mut self) {
        for (path, file) in &self.snapshot.files {
            let expected = path == "nodecfg.yml"
                || (path.starts_with("base/") && !self.unread_pools)
                || path
                    .strip_prefix("pools/")
                    .is_some_and(|rest| rest.contains('/') || matches!(file, SnapshotFile::Text(_)));
            if !expected || self.read.contains_key(path) {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            let help = match name {
                "nodecfg.yml" | "pool.yml" | "kubelet.yml" => format!("rename it to {}", name.replace(".yml", ".yaml")),
                _ if path.starts_with("base/") => format!("name it in a pool.yaml: spec.kubelet.base: ../../{path}"),
                _ if path.matches('/').count() == 1 => "move it into the folder of a pool, or remove it".to_owned(),
                _ => "name it in pool.yaml under spec.kubelet.patches, or remove it".to_owned(),
            };
            let finding = Finding::warning("unused-file", format!("{path} is unused"));
            self.findings.push(finding.at(Place::whole_file(path.as_str())).help(help));
        }
    }
}

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

/// Reports each pool that selects the same nodes with the same priority as an earlier one.
fn equal_selectors(pools: &BTreeMap<PoolName, Pool>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: BTreeMap<(String, i64), &Pool> = BTreeMap::new();
    for pool in pools.values() {
        let key = (pool.selector.to_string(), pool.priority);
        match seen.get(&key) {
            Some(first) => {
                let message = format!(
                    "pools {} and {} select the same nodes ({}) with the same priority",
                    first.name, pool.name, key.0
                );
                let help = format!(
                    "set spec.priority: {}; the higher pool wins a node that several select",
                    pool.priority.saturating_add(1)
                );
                let finding = Finding::error("same-selector", message).at(pool.place.clone());
                findings.push(finding.related(first.place.clone(), "the other pool").help(help));
            }
            None => {
                seen.insert(key, pool);
            }
        }
    }
    findings
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
