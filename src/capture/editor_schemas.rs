//! JSON Schemas for editors: files in a hidden folder of a new repository, and the first line of each file that names
//! one.

use super::remarks::is_same_yaml;
use super::starter::RepositoryFiles;
use crate::report::schemas;
use kubelet_config::Minor;
use nodecfg_fleet::FLEET_FILE;
use nodecfg_fleet::formats::schema::pretty;

/// Folder of the schemas. nodecfg reads no hidden files, so the folder has no effect on a repository.
pub const SCHEMA_FOLDER: &str = ".nodecfg";

/// The schema of a file of a repository, as a path from the root. `None` for other files.
#[must_use]
pub fn schema_of(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let schema = match name {
        FLEET_FILE if path == FLEET_FILE => "fleet",
        "pool.yaml" => "nodepool",
        "kubelet.yaml" => "kubelet",
        _ => return None,
    };
    Some(format!("{SCHEMA_FOLDER}/{schema}.schema.json"))
}

/// The text of a file with a first line that names its schema for yaml-language-server. Without that line if it could
/// change what the kubelet reads.
#[must_use]
pub fn with_schema_line(path: &str, text: &str) -> String {
    let Some(schema) = schema_of(path) else { return text.to_owned() };
    let up = "../".repeat(path.matches('/').count());
    let named = format!("# yaml-language-server: $schema={up}{schema}\n{text}");
    // The kubelet reads a text that starts with a brace as JSON, and JSON has no comments.
    let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    if !is_json && is_same_yaml(&named, text) { named } else { text.to_owned() }
}

/// Adds schemas for editors to a repository. That of KubeletConfiguration is for a kubelet of this version.
pub(crate) fn with_schemas(repository: RepositoryFiles, minor: Minor) -> RepositoryFiles {
    let mut files: RepositoryFiles =
        repository.iter().map(|(path, text)| (path.clone(), with_schema_line(path, text))).collect();
    for (name, schema) in [
        ("fleet", schemas::FLEET.to_owned()),
        ("nodepool", schemas::NODEPOOL.to_owned()),
        ("kubelet", pretty(&kubelet_config::fields::schema(minor))),
    ] {
        files.insert(format!("{SCHEMA_FOLDER}/{name}.schema.json"), schema);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::starter::empty_repository;
    use super::*;
    use nodecfg_contract::names::FleetName;

    #[test]
    fn each_line_names_a_schema_that_accepts_its_file() {
        let repository = with_schemas(empty_repository(&FleetName::new("default").unwrap()), Minor(36));
        let mut named = 0;
        for (path, text) in repository.iter().filter(|(path, _)| path.ends_with(".yaml")) {
            let line = text.lines().next().unwrap_or_default();
            let target =
                line.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{path}: {line}"));
            let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
            let schema = kubelet_config::values::clean_path(&format!("/{folder}/{target}"));
            let schema: serde_json::Value = serde_json::from_str(&repository[schema.trim_start_matches('/')]).unwrap();
            let content: serde_json::Value = serde_saphyr::from_str(text).unwrap();
            assert!(jsonschema::is_valid(&schema, &content), "{path}");
            named += 1;
        }
        assert_eq!(named, 3);
    }

    #[test]
    fn leaves_json_and_other_files_unchanged() {
        for (path, text) in
            [("pools/a/kubelet.yaml", "{\"maxPods\": 5}\n"), ("README.md", "a: 1\n"), ("pools/a/kubelet.yaml", "a: [")]
        {
            assert_eq!(with_schema_line(path, text), text);
        }
        let line = "# yaml-language-server: $schema=../../.nodecfg/kubelet.schema.json\na: 1\n";
        assert_eq!(with_schema_line("pools/a/kubelet.yaml", "a: 1\n"), line);
    }
}
