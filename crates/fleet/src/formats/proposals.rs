//! Paths within a repository, and proposals for invalid names and paths.

use std::collections::BTreeMap;

use kubelet_config::finding::nearest;
use nodecfg_contract::names::PoolName;

/// Resolves a path in a file of `folder` to a path from the root. `None` if it leaves the root.
pub(crate) fn resolved(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Proposes a DNS label for an invalid name: in lower case, with `-` for other characters. `None` if that is invalid,
/// too.
pub(crate) fn dns_label(invalid: &str) -> Option<String> {
    let lower = invalid.to_lowercase();
    let name: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    PoolName::new(name).is_ok().then(|| name.to_owned())
}

/// The path from `folder` of the file that a wrong path probably means: the same path from the root, or else a file
/// whose name is nearest, in the folder or outside of pools. A pool needs no path to its own files.
pub(crate) fn path<F>(files: &BTreeMap<String, F>, folder: &str, wrong: &str) -> Option<String> {
    let wanted = wrong.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect::<Vec<_>>().join("/");
    if files.contains_key(&wanted) {
        return Some(relative(folder, &wanted));
    }
    // Without the ending, which most files share.
    fn stem(file: &str) -> &str {
        let name = file.rsplit('/').next().unwrap_or(file);
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }
    let in_folder = |file: &&String| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let candidates = files.keys().map(|file| (file, stem(file))).filter(|(file, name)| {
        let own = in_folder(file) && matches!(*name, "pool" | "kubelet");
        !own && (in_folder(file) || !file.starts_with("pools/"))
    });
    let near = nearest(stem(&wanted), candidates.clone().map(|(_, name)| name))?;
    candidates.filter(|(_, name)| *name == near).map(|(file, _)| relative(folder, file)).next()
}

/// A path from the root as a path from a folder.
fn relative(folder: &str, file: &str) -> String {
    let (folder, file): (Vec<&str>, Vec<&str>) = (folder.split('/').collect(), file.split('/').collect());
    let shared = folder.iter().zip(&file).take_while(|(a, b)| a == b).count();
    let up = folder.iter().skip(shared).map(|_| "..");
    up.chain(file.iter().skip(shared).copied()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposes_names_and_paths() {
        assert_eq!(dns_label("GPU_1").as_deref(), Some("gpu-1"));
        assert_eq!(dns_label("__"), None);
        assert_eq!(resolved("pools/a", "../../base/b.yaml").as_deref(), Some("base/b.yaml"));
        assert_eq!(resolved("pools/a", "../../../b.yaml"), None);
        let files =
            ["base/kubelet.yaml", "pools/a/kubelet.yaml", "pools/a/pool.yaml", "pools/a/tuning.yaml", "pools/b/c.yaml"];
        let files = files.map(|file| (file.to_owned(), ())).into();
        for (wrong, proposal) in [
            ("/base/kubelet.yaml", Some("../../base/kubelet.yaml")),
            ("../../../base/kubelet.yaml", Some("../../base/kubelet.yaml")),
            ("../../base/kublet.yaml", Some("../../base/kubelet.yaml")),
            ("tunning.yaml", Some("tuning.yaml")),
            ("patches/tuning.yaml", Some("tuning.yaml")),
            ("missing.yaml", None),
            ("c.yaml", None),
        ] {
            assert_eq!(path(&files, "pools/a", wrong).as_deref(), proposal, "{wrong}");
        }
    }
}
