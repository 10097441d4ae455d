//! Project rules as tests: allowed imports, single access points for clock and environment, file headers and lengths,
//! and facts in the documents.
//!
//! The tests read the sources as text. This is imprecise but sufficient against accidental violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubelet_config::{NEWEST_RELEASED, OLDEST};
use walkdir::WalkDir;

/// Crates from the bottom to the top. The manifest of a crate must not have those above it as dependencies, so that its
/// code cannot use them.
const LAYERS: [&str; 12] = [
    "go-yaml",
    "kubelet-config",
    "nodecfg-clock",
    "nodecfg-contract",
    "nodecfg-install",
    "nodecfg-observed",
    "nodecfg-fleet",
    "nodecfg-plan",
    "nodecfg-rollout",
    "nodecfg-cluster",
    "nodecfg-agent",
    "nodecfg-sandbox",
];

/// Further dependencies that the manifest of a crate must not have.
const KEEPS_OUT: [(&str, &[&str]); 12] = [
    ("go-yaml", PURE),
    ("kubelet-config", PURE),
    ("contract", PURE),
    ("install", &["clap", "git2", "kube", "nodecfg-clock", "tokio"]),
    ("observed", PURE),
    ("fleet", &["clap", "futures", "git2", "kube", "nodecfg-clock", "nodecfg-observed", "tokio"]),
    ("plan", PURE),
    ("rollout", PURE),
    ("cluster", &["clap", "git2", "nodecfg-fleet", "nodecfg-plan", "nodecfg-rollout"]),
    ("agent", &["axum", "git2", "nodecfg-fleet", "nodecfg-plan", "nodecfg-rollout"]),
    ("sandbox", &["clap", "git2", "nodecfg-fleet", "nodecfg-plan", "nodecfg-rollout"]),
    ("clock", &["kube"]),
];

/// Dependencies that bring input, output, time or threads.
const PURE: &[&str] = &["clap", "futures", "git2", "kube", "nodecfg-clock", "tokio"];

/// Import rules that cargo cannot check: paths of files or folders, forbidden names, and the reason. Tests in these
/// files are exempt.
const FORBIDDEN: [(&[&str], &[&str], &str); 11] = [
    (
        &[
            "crates/contract/src",
            "crates/fleet/src",
            "crates/go-yaml/src",
            "crates/kubelet-config/src",
            "crates/observed/src",
            "crates/plan/src",
            "crates/rollout/src",
        ],
        &["std::fs", "TcpListener", "TcpStream", "UdpSocket", "std::process", "std::env", "std::thread"],
        "is pure: callers pass in time, randomness and external data",
    ),
    (
        &[
            "crates/agent/src/content.rs",
            "crates/agent/src/machine",
            "crates/agent/src/events.rs",
            "crates/agent/src/ledger.rs",
            "crates/agent/src/settings.rs",
            "src/doctor",
            "src/status",
            "src/telemetry/facts.rs",
            "src/telemetry/metrics.rs",
            "src/telemetry/settings.rs",
        ],
        &[
            "kube::",
            "hyper",
            "git2",
            "tokio",
            "futures",
            "fastrand",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "nodecfg_clock",
            "nodecfg_cluster",
            "nodecfg_sandbox",
            "crate::report",
            "crate::arguments",
            "crate::commands",
            "crate::runs",
            "crate::terminal",
        ],
        "is pure: callers pass in time, randomness and external data",
    ),
    (
        &["crates/fleet/src", "crates/plan/src", "crates/rollout/src", "src/status"],
        &["nodecfg_contract::nodeconfig", "nodecfg_cluster::reading::binding", "Binding::"],
        "must not depend on where a cluster stores its assignments",
    ),
    (
        &["src/report"],
        &[
            "kube::",
            "hyper",
            "tokio",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "nodecfg_clock",
            "nodecfg_cluster",
            "nodecfg_sandbox",
            "crate::arguments",
            "crate::commands",
            "crate::runs",
            "crate::terminal",
        ],
        "writes reports to the given writer and accesses no cluster",
    ),
    (
        &["src/repository"],
        &["kube::", "tokio", "std::net", "std::env", "nodecfg_cluster", "nodecfg_plan", "crate::report"],
        "reads files",
    ),
    (
        &[
            "src/repository/address.rs",
            "src/repository/confined.rs",
            "src/repository/enclosing.rs",
            "src/repository/read_file.rs",
            "src/repository/folder.rs",
            "src/repository/git.rs",
            "src/repository/links.rs",
            "src/repository/merge.rs",
            "src/repository/remote/cache.rs",
            "src/repository/remote/environment.rs",
            "src/repository/remote/mod.rs",
            "src/repository/remote/progress.rs",
            "src/repository/remote/fetch_target.rs",
            "src/repository/signature/allowed_key.rs",
            "src/repository/signature/commit.rs",
            "src/repository/signature/openpgp.rs",
            "src/repository/signature/ssh.rs",
        ],
        &["std::process", "Command::new"],
        "starts no program; only program.rs runs the commands of remote/session.rs and signature/isolated.rs",
    ),
    (&["crates/cluster/src"], &["std::fs", "std::process"], "only sends requests to a server"),
    (
        // All of the crate except crates/sandbox/src/agents, which runs the agent.
        &[
            "crates/sandbox/src/api",
            "crates/sandbox/src/server",
            "crates/sandbox/src/kubelets",
            "crates/sandbox/src/in_process.rs",
            "crates/sandbox/src/machines.rs",
            "crates/sandbox/src/nodes.rs",
            "crates/sandbox/src/watch.rs",
            "crates/sandbox/src/workloads",
        ],
        &["nodecfg_cluster", "nodecfg_agent"],
        "simulates a cluster and must not depend on nodecfg",
    ),
    (
        &["src", "crates"],
        &["lazy_static", "once_cell", "chrono", "serde_yaml", "openssl", "reqwest", "rand::"],
        "already uses another crate for this",
    ),
    // One `use` per module, so that the rules above find it.
    (&["src"], &["crate::{"], "imports module by module"),
    (&["src", "crates"], &["std::{"], "imports module by module"),
];

/// Names of [`FORBIDDEN`] that no shipped file uses at present, and that exist.
const NAMED_NOWHERE: [&str; 1] = ["UdpSocket"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Paths of all project files, with `/` as separator, sorted.
fn files() -> Vec<String> {
    let hidden = [".git", "target"];
    let mut files: Vec<String> = WalkDir::new(root())
        .into_iter()
        .filter_entry(|entry| entry.depth() != 1 || !hidden.iter().any(|name| entry.file_name() == *name))
        .map(|entry| entry.expect("readable"))
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let parts: Vec<_> =
                entry.path().strip_prefix(root()).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
            parts.join("/")
        })
        .filter(|file| !file.ends_with(".snap.new") && !file.ends_with(".pending-snap"))
        .collect();
    files.sort();
    files
}

fn rust_files() -> Vec<String> {
    files().into_iter().filter(|file| file.ends_with(".rs")).collect()
}

fn is_in(file: &str, place: &str) -> bool {
    file == place || file.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
}

/// Modules below a crate root by file, and whether each is compiled only for tests.
fn modules(crate_root: &str, tests: bool) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let mut open = vec![(crate_root.to_owned(), tests)];
    while let Some((file, for_tests)) = open.pop() {
        let path = Path::new(&file);
        let folder = path.parent().unwrap();
        let own = if matches!(path.file_name().unwrap().to_str(), Some("mod.rs" | "lib.rs" | "main.rs"))
            || file == crate_root
        {
            folder.to_path_buf()
        } else {
            path.with_extension("")
        };
        let (mut cfg_test, mut named) = (false, None);
        for line in read(&file).lines() {
            if line.starts_with("#[cfg(") {
                cfg_test |= line.contains("test");
            } else if let Some(rest) = line.strip_prefix("#[path = \"") {
                named = rest.split('"').next().map(|name| folder.join(name));
            } else if !line.starts_with("#[") && !line.starts_with("//") {
                if let Some(name) = module_declared(line) {
                    let child = named.take().unwrap_or_else(|| {
                        let (flat, nested) = (own.join(format!("{name}.rs")), own.join(name).join("mod.rs"));
                        if root().join(&flat).is_file() { flat } else { nested }
                    });
                    open.push((plain(&child), for_tests || cfg_test));
                }
                (cfg_test, named) = (false, None);
            }
        }
        found.insert(file, for_tests);
    }
    found
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path {
        match part.to_str().unwrap() {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The name in `mod name;` with any visibility.
fn module_declared(line: &str) -> Option<&str> {
    let line = line.strip_suffix(';')?;
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
        None => line,
    };
    line.strip_prefix("mod ")
}

/// Lines of the shipped code with their numbers, without comments and trailing test modules.
fn shipped(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'));
    lines
        .iter()
        .enumerate()
        .take(tests.unwrap_or(lines.len()))
        .map(|(index, line)| (index + 1, *line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect()
}

/// Crate roots of all shipped libraries and programs.
fn crate_roots() -> Vec<String> {
    let is_root = |file: &String| {
        let parts: Vec<&str> = file.split('/').collect();
        matches!(parts.as_slice(), ["src", "lib.rs" | "main.rs"] | ["crates", _, "src", "lib.rs" | "main.rs"])
    };
    rust_files().into_iter().filter(is_root).collect()
}

/// Texts of all shipped modules.
fn library() -> Vec<(String, String)> {
    let all: BTreeMap<String, bool> = crate_roots().iter().flat_map(|root| modules(root, false)).collect();
    all.into_iter()
        .filter(|(_, tests)| !tests)
        .map(|(file, _)| {
            let text = read(&file);
            (file, text)
        })
        .collect()
}

/// Reports whether a line contains a path as whole words.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !word(before) && (!word(path.chars().next_back()) || !word(after))
    })
}

/// Fails with everything that was found, one per line.
fn none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Names of the dependencies in a manifest, apart from those of tests: in tables of dependencies of any target, and in
/// tables of their own.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for table in manifest.split("\n[") {
        let (header, lines) = table.split_once("]\n").unwrap_or((table, ""));
        let Some((before, own)) = header.split_once("dependencies").filter(|(before, _)| !before.ends_with("dev-"))
        else {
            continue;
        };
        if before != "workspace." {
            found.extend(own.strip_prefix('.'));
            let keys = lines.lines().filter(|line| own.is_empty() && line.starts_with(char::is_alphanumeric));
            found.extend(keys.filter_map(|line| line.split(['.', ' ', '=']).next()));
        }
    }
    found
}

#[test]
fn finds_dependencies_in_every_table() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\na.workspace = true\n# b = \"1\"\nc = \"1\"\n\n\
                    [target.'cfg(unix)'.dependencies]\nd = { path = \"..\" }\n\n[dependencies.e]\nversion = \"1\"\n\n\
                    [build-dependencies]\nf = \"1\"\n\n[dev-dependencies]\ng = \"1\"\n\n[lints]\nworkspace = true\n";
    assert_eq!(dependencies(manifest).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "e", "f"]);
}

#[test]
fn crates_depend_only_on_allowed_layers() {
    let manifests: BTreeMap<String, String> = files()
        .into_iter()
        .filter_map(|file| Some((file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.to_owned(), read(&file))))
        .collect();
    let mut known = dependencies(&read("Cargo.toml")).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    known.extend(manifests.values().flat_map(|manifest| dependencies(manifest)).map(str::to_owned));
    let mut found = Vec::new();
    let rules = KEEPS_OUT.map(|(name, others)| {
        let layer = LAYERS.iter().position(|layer| layer.strip_prefix("nodecfg-").unwrap_or(layer) == name);
        let above = LAYERS.iter().skip(layer.unwrap_or_else(|| panic!("{name} has no layer")) + 1);
        (name, above.chain(others).copied().collect::<BTreeSet<&str>>())
    });
    for (name, forbidden) in &rules {
        let dependencies = dependencies(&manifests[*name]);
        assert_eq!(dependencies.is_empty(), *name == "go-yaml", "crates/{name}/Cargo.toml");
        found.extend(forbidden.iter().filter(|one| dependencies.contains(*one)).map(|one| format!("{name}: {one}")));
        found.extend(forbidden.iter().filter(|one| !known.contains(**one)).map(|one| format!("no crate has {one}")));
    }
    none("dependencies of crates", &found);
    let with_rule: BTreeSet<&str> = rules.iter().map(|(name, _)| *name).collect();
    let crates: BTreeSet<&str> = manifests.keys().map(String::as_str).collect();
    assert_eq!(crates, with_rule, "crates with a layer");
}

#[test]
fn files_import_only_allowed_names() {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in library() {
        for (places, forbidden, why) in FORBIDDEN {
            let Some(place) = places.iter().find(|place| is_in(&file, place)) else { continue };
            used.insert(*place);
            for (number, line) in shipped(&text) {
                found.extend(
                    forbidden
                        .iter()
                        .filter(|path| names(line, path))
                        .map(|path| format!("{file}:{number}: names {path}, but {place} {why}")),
                );
            }
        }
    }
    none("forbidden imports", &found);
    let unused: Vec<String> = FORBIDDEN
        .iter()
        .flat_map(|(places, ..)| *places)
        .filter(|place| !used.contains(*place))
        .map(|place| (*place).to_owned())
        .collect();
    none("rules about missing files", &unused);
    // A name that no file uses is misspelt, unless its rule holds for all files.
    let all = library();
    let occurs = |path: &str| all.iter().any(|(_, text)| shipped(text).iter().any(|(_, line)| names(line, path)));
    let unknown: BTreeSet<&str> = FORBIDDEN
        .iter()
        .filter(|(places, ..)| !places.contains(&"src"))
        .flat_map(|(_, forbidden, _)| *forbidden)
        .copied()
        .filter(|path| !NAMED_NOWHERE.contains(path) && !occurs(path))
        .collect();
    assert_eq!(unknown, BTreeSet::new(), "rules about names that no file uses");
}

#[test]
fn clock_environment_and_sandbox_have_single_access_points() {
    let access_points: [(&[&str], &[&str]); 3] = [
        (&["Timestamp::now(", "Zoned::now(", "SystemTime::now(", "Instant::now("], &["crates/clock/src"]),
        // The kubeconfig and the proxy exceptions are read once, for the command line.
        (
            &["std::env::", "env::var"],
            &[
                "src/arguments",
                "src/commands",
                "src/terminal",
                "src/main.rs",
                "crates/agent/src/cli",
                "crates/agent/src/main.rs",
                "crates/cluster/src/connection/connect.rs",
            ],
        ),
        (&["nodecfg_sandbox"], &["src/sandbox_nodes.rs", "src/commands/sandbox.rs"]),
    ];
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in library() {
        for (words, allowed) in access_points {
            let place = allowed.iter().find(|place| is_in(&file, place));
            for (number, line) in shipped(&text) {
                for word in words.iter().filter(|word| line.contains(**word)) {
                    match place {
                        Some(place) => drop(used.insert((words[0], *place))),
                        None => found.push(format!("{file}:{number}: {word}")),
                    }
                }
            }
        }
    }
    none("used outside of the access points", &found);
    let unused: Vec<String> = access_points
        .iter()
        .flat_map(|(words, allowed)| allowed.iter().map(|place| (words[0], *place)))
        .filter(|access| !used.contains(access))
        .map(|(word, place)| format!("{place} uses no {word}"))
        .collect();
    none("access points without a use", &unused);
}

#[test]
fn source_files_are_compiled_and_start_with_module_comment() {
    let mut reachable: BTreeSet<String> =
        crate_roots().iter().flat_map(|root| modules(root, false).into_keys()).collect();
    let sources = rust_files();
    // Files and folders that cargo compiles as separate crates.
    for file in &sources {
        let parts: Vec<&str> = file.split('/').collect();
        let is_crate = matches!(
            parts.as_slice(),
            ["tests" | "benches", _]
                | ["tests" | "benches", _, "main.rs"]
                | ["crates", _, "tests" | "examples", _]
                | ["crates", _, "tests", _, "main.rs"]
                | ["fuzz", "fuzz_targets", _]
        );
        if is_crate {
            reachable.extend(modules(file, true).into_keys());
        }
    }
    let uncompiled: Vec<String> = sources.iter().filter(|file| !reachable.contains(*file)).cloned().collect();
    none("declared by no `mod`", &uncompiled);
    let uncommented: Vec<String> = sources.iter().filter(|file| !read(file).starts_with("//! ")).cloned().collect();
    none("does not open with `//!`", &uncommented);
}

#[test]
fn files_have_specific_names() {
    let mut found = Vec::new();
    for file in rust_files()
        .iter()
        .filter(|file| file.starts_with("src/") || file.starts_with("crates/") && file.contains("/src/"))
    {
        let vague = ["utils", "util", "helpers", "helper", "common", "misc", "shared"];
        if Path::new(file).iter().any(|part| vague.contains(&part.to_str().unwrap().trim_end_matches(".rs"))) {
            found.push(format!("{file}: unspecific name"));
        }
    }
    none("files", &found);
}

#[test]
fn shipped_code_has_no_panics_and_no_todos() {
    // Clippy denies most of these, but not where it is allowed to ignore them.
    let words = [
        ".unwrap()",
        ".expect(\"",
        "panic!(",
        "unreachable!(",
        "todo!(",
        "unimplemented!(",
        "dbg!(",
        "process::exit",
        "#[allow(",
        "#![allow(",
    ];
    let mut found = Vec::new();
    for (file, text) in library() {
        let code = shipped(&text);
        let in_code = code.iter().flat_map(|(number, line)| words.map(|word| (*number, *line, word)));
        // Most of these are in comments.
        let anywhere = text.lines().enumerate();
        let anywhere = anywhere.flat_map(|(index, line)| ["TODO", "FIXME", "XXX"].map(|word| (index + 1, line, word)));
        let wrong = in_code.chain(anywhere).filter(|(_, line, word)| line.contains(word));
        found.extend(wrong.map(|(number, _, word)| format!("{file}:{number}: {word}")));
    }
    none("not in shipped code (a lint is waived by #[expect], with a reason)", &found);
}

/// Types whose name belongs to one fact. A second type of such a name needs the name of what it is about.
const UNIQUE_TYPES: [&str; 12] = [
    "Assignment",
    "Class",
    "ConfigSource",
    "Convergence",
    "Finding",
    "Gate",
    "Hold",
    "Minor",
    "Plan",
    "Snapshot",
    "State",
    "Verdict",
];

#[test]
fn fundamental_type_names_are_unique() {
    let declaration =
        regex::Regex::new(r"(?m)^\s*(?:pub(?:\([a-z:]+\))? )?(?:struct|enum|union|trait|type) (\w+)").unwrap();
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files().into_iter().filter(|file| file.starts_with("src/") || file.contains("/src/")) {
        for found in declaration.captures_iter(&read(&file)) {
            declared.entry(found[1].to_owned()).or_default().push(file.clone());
        }
    }
    let wrong: Vec<String> = UNIQUE_TYPES
        .iter()
        .map(|name| (name, declared.get(*name).map(Vec::as_slice).unwrap_or_default()))
        .filter(|(_, files)| files.len() != 1)
        .map(|(name, files)| format!("{name}: {files:?}"))
        .collect();
    none("these type names are declared exactly once", &wrong);
}

/// A `help:` line has one action. Reasons are part of the message, details of `nodecfg explain CODE`.
#[test]
fn help_of_errors_is_one_sentence_on_one_line() {
    let literal = regex::Regex::new(r#""((?:[^"\\]|\\.|\\\n)*)""#).unwrap();
    let sentences = regex::Regex::new(r"\.\s+[A-Z`]|\\n[^\s]").unwrap();
    let mut functions = 0;
    let mut wrong = Vec::new();
    for (file, text) in library() {
        for body in text.split("pub fn help(&self)").skip(1) {
            let body = body.split("\n    }\n").next().unwrap_or(body);
            functions += 1;
            for found in literal.captures_iter(body).filter(|found| sentences.is_match(&found[1])) {
                wrong.push(format!("{file}: {}", &found[1]));
            }
        }
    }
    assert!(functions > 8, "{functions} functions were found");
    none("the help of an error is one sentence on one line", &wrong);
}

#[test]
fn texts_have_no_machine_paths() {
    // Composed, so that this file does not match.
    let machines =
        [format!("/{}/", "root"), format!("/{}/", "Users"), format!("/tmp{}", "/wt"), format!("/{}/", "work")];
    let mut found = Vec::new();
    for file in files() {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for (index, line) in text.lines().enumerate() {
            // The root of a process and the folder of a recorded kubelet are not folders of a machine.
            let line = line.replace("/proc/1/root/", "/proc/1/root of it/").replace("DIR/root/", "DIR/root of it/");
            found.extend(
                machines
                    .iter()
                    .filter(|path| line.contains(path.as_str()))
                    .map(|path| format!("{file}:{}: {path}", index + 1)),
            );
        }
    }
    none("paths of machines", &found);
}

// --- documents ---

fn documents() -> Vec<String> {
    files().into_iter().filter(|file| file.ends_with(".md")).collect()
}

/// First cells of all rows of tables in a Markdown text.
fn first_cells(markdown: &str) -> Vec<&str> {
    markdown.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0)).collect()
}

/// All code in a Markdown text: lines of fenced blocks, and code spans, which may continue on the next line.
fn code(markdown: &str) -> Vec<&str> {
    let spans = |paragraph: std::ops::Range<usize>| markdown[paragraph].split('`').skip(1).step_by(2);
    let (mut fenced, mut start, mut end) = (false, 0, 0);
    let mut found = Vec::new();
    for line in markdown.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || line.trim().is_empty() {
            found.extend(spans(start..end));
            start = end + line.len();
        } else if fenced {
            found.push(line.trim());
            start = end + line.len();
        }
        fenced ^= is_fence;
        end += line.len();
    }
    found.extend(spans(start..end));
    found
}

#[test]
fn finds_code_in_markdown() {
    let text = "A `b` c `d\ne` f.\n\n```sh\ng `h`\n\n  i\n```\n- `j`\n- k\n\n| `l` |\nm `n`";
    assert_eq!(code(text), ["b", "d\ne", "g `h`", "i", "j", "l", "n"]);
}

fn nodecfg(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nodecfg")).args(arguments).output().expect("nodecfg runs");
    assert!(output.status.success(), "nodecfg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Subcommands in `--help`.
fn subcommands() -> BTreeSet<String> {
    let help = nodecfg(&["--help"]);
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    list.filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn reference_lists_every_command_and_exit_code() {
    let (commands, page) = (read("docs/reference/commands.md"), read("docs/reference/exit-codes.md"));
    let row = |command: &String| commands.lines().any(|line| line.starts_with(&format!("| `{command}")));
    let mut missing: Vec<String> =
        subcommands().into_iter().filter(|command| command != "help" && !row(command)).collect();
    let help = nodecfg(&["--help"]);
    let codes = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    let mut count = 0;
    for (code, meaning) in codes.filter_map(|line| line.trim().split_once("  ")) {
        count += 1;
        if !page.lines().any(|line| line.starts_with(&format!("| {code} | {meaning}"))) {
            missing.push(format!("exit code {code}: {meaning}"));
        }
    }
    // Exit codes by command.
    let table = page.split_once("\n## Exit codes by command\n").map_or("", |(_, rest)| rest);
    let rows: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next()).collect();
    for command in subcommands().into_iter().filter(|command| command != "help") {
        if !rows.iter().any(|row| row.split(|c: char| !c.is_alphanumeric()).any(|word| word == command)) {
            missing.push(format!("exit codes of {command}"));
        }
    }
    none("not in docs/reference/commands.md or docs/reference/exit-codes.md", &missing);
    assert_eq!(count, 8, "{help}");
}

/// Names of all properties in a schema.
fn properties(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                if let ("properties", serde_json::Value::Object(properties)) = (key.as_str(), value) {
                    found.extend(properties.keys().cloned());
                }
                properties(value, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

#[test]
fn reference_lists_every_field_and_output() {
    let page = read("docs/reference/repository.md");
    let mut fields = BTreeSet::new();
    for kind in ["fleet", "nodepool"] {
        properties(&serde_json::from_str(&nodecfg(&["schema", kind])).unwrap(), &mut fields);
    }
    assert!(fields.contains("allowDisruption"), "{fields:?}");
    // Properties of a LabelSelector belong to Kubernetes.
    for theirs in ["key", "matchExpressions", "matchLabels", "operator", "values"] {
        fields.remove(theirs);
    }
    let words: BTreeSet<&str> = first_cells(&page)
        .into_iter()
        .flat_map(|cell| cell.split(|c: char| !c.is_alphanumeric() && c != '-'))
        .collect();
    let mut missing: Vec<String> = fields
        .into_iter()
        .filter(|field| !words.contains(field.as_str()))
        .map(|field| format!("field {field}"))
        .collect();
    let json = read("docs/reference/json.md");
    let outputs: Vec<String> = files().into_iter().filter(|file| file.starts_with("schemas/output/")).collect();
    assert!(outputs.len() > 10, "{outputs:?}");
    missing.extend(outputs.into_iter().filter(|file| !json.contains(&format!("](../../{file})"))));
    none("not in docs/reference/repository.md or docs/reference/json.md", &missing);
}

/// Folders of the project. A code span that begins with one is a path.
const FOLDERS: [&str; 12] = [
    ".ci",
    ".github",
    "action",
    "benches",
    "crates",
    "data",
    "deploy",
    "docs",
    "examples",
    "packaging",
    "schemas",
    "src",
];

#[test]
fn paths_in_documents_exist() {
    let (mut paths, mut found) = (0, Vec::new());
    for document in documents() {
        let text = read(&document);
        for span in code(&text) {
            let span = span.trim_end_matches('/');
            let is_path =
                FOLDERS.iter().any(|folder| span.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
                    && span.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            paths += usize::from(is_path);
            if is_path && !root().join(span).exists() {
                found.push(format!("{document}: {span}"));
            }
        }
    }
    none("paths", &found);
    assert!(paths > 100, "only {paths} paths; does the test still find them?");
    assert!(FOLDERS.iter().all(|folder| root().join(folder).is_dir()), "{FOLDERS:?}");
}

#[test]
fn versions_agree() {
    let version = env!("CARGO_PKG_VERSION");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let readme = read("README.md");
    assert!(readme.contains(version), "the README does not name version {version}");
    assert!(readme.contains(&format!("Rust {rust}")), "the README does not require Rust {rust}");
    assert!(read("Dockerfile").contains(&format!("FROM rust:{rust}-")), "the Dockerfile uses a different Rust version");
    // Versions that users copy: the tags of the image and of the action.
    let (mut pins, mut toolchains) = (0, 0);
    let mut stale = Vec::new();
    for file in files().into_iter().filter(|file| [".md", ".yml", ".yaml"].iter().any(|end| file.ends_with(end))) {
        for line in read(&file).lines() {
            let action = line.split_once("uses: example/nodecfg@").and_then(|(_, pin)| pin.split_once(" # v"));
            let image = || ["image: nodecfg:", "newTag: "].iter().find_map(|before| line.split_once(before));
            let pin = action.or_else(image).map(|(_, pin)| pin.trim());
            for before in ["rustup toolchain install ", "rustup default "] {
                if let Some((_, toolchain)) = line.split_once(before) {
                    toolchains += 1;
                    if toolchain.split(' ').next() != Some(rust) {
                        stale.push(format!("{file}: {}, and Cargo.toml has Rust {rust}", line.trim()));
                    }
                }
            }
            if let Some(pin) = pin {
                pins += 1;
                if pin != version {
                    stale.push(format!("{file}: {pin}, and Cargo.toml has {version}"));
                }
            }
        }
    }
    let kubelets = format!("{OLDEST} to {NEWEST_RELEASED}");
    for file in ["README.md", "docs/reference/agents.md"] {
        if !read(file).contains(&kubelets) {
            stale.push(format!("{file}: validation covers kubelets {kubelets}"));
        }
    }
    none("versions", &stale);
    assert!(
        pins >= 4 && toolchains >= 6,
        "only {pins} pinned versions and {toolchains} toolchains; does the test still find them?"
    );
    let changelog = read("CHANGELOG.md");
    let mut headings = changelog.lines().filter_map(|line| line.strip_prefix("## ["));
    assert!(
        headings.next().is_some_and(|heading| heading.starts_with("Unreleased]")),
        "CHANGELOG.md: first Unreleased"
    );
    if let Some(released) = headings.next() {
        assert!(released.starts_with(&format!("{version}]")), "CHANGELOG.md: {released}, Cargo.toml: {version}");
    }
}

/// zizmor reads no documents, and no versions in comments without network.
#[test]
fn actions_are_pinned_to_commits_and_name_versions() {
    let action = regex::Regex::new(r"(?m)^[ -]*uses: ([^./].*)").unwrap();
    let pinned = regex::Regex::new(r"^\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").unwrap();
    let (mut seen, mut found) = (0, Vec::new());
    for file in files().into_iter().filter(|file| [".md", ".yml", ".yaml"].iter().any(|end| file.ends_with(end))) {
        for used in action.captures_iter(&read(&file)) {
            seen += 1;
            if !pinned.is_match(&used[1]) {
                found.push(format!("{file}: {}", &used[1]));
            }
        }
    }
    none("unpinned actions", &found);
    assert!(seen >= 20, "only {seen} uses of actions; does the test still find them?");
}

#[test]
fn architecture_lists_every_module_and_crate() {
    let text = read("ARCHITECTURE.md");
    let section = |title: &str| {
        let section = text.split("\n## ").find_map(|section| section.strip_prefix(title));
        first_cells(section.unwrap_or_else(|| panic!("ARCHITECTURE.md has no section {title}")))
    };
    let (table, map) = (section("Crates\n"), section("Folders of `src/`\n"));
    let mut missing = Vec::new();
    let library = read("src/lib.rs");
    let modules: Vec<&str> = library.lines().filter_map(module_declared).collect();
    for name in &modules {
        let as_written = [format!("`src/{name}.rs`"), format!("`src/{name}/`")];
        if !map.iter().any(|cell| as_written.iter().any(|path| cell.contains(path.as_str()))) {
            missing.push((*name).to_owned());
        }
    }
    let crates: Vec<String> = files()
        .into_iter()
        .filter_map(|file| {
            let name = file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            Some(format!("crates/{name}"))
        })
        .collect();
    assert!(modules.len() > 10 && crates.len() == LAYERS.len(), "{modules:?} {crates:?}");
    missing.extend(crates.into_iter().filter(|name| !table.contains(&format!("`{name}/`").as_str())));
    none("not in ARCHITECTURE.md's tables", &missing);
}

#[test]
fn tests_of_the_attackers_exist() {
    let text = read("docs/explanation/security.md");
    let section = text.split("\n## ").find_map(|section| section.strip_prefix("Attackers\n")).expect("the table");
    let rust = rust_files();
    let sources: Vec<String> = rust.iter().map(|file| read(file)).collect();
    let exists = |test: &&str| match test.ends_with(".rs") {
        true => rust.iter().any(|file| file.ends_with(test)),
        false => sources.iter().any(|source| source.contains(&format!("fn {test}("))),
    };
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| attacker"));
    let tests: Vec<Vec<&str>> = rows.map(|row| code(row.rsplit('|').nth(1).unwrap_or_default())).collect();
    assert!(tests.len() > 20 && tests.iter().all(|row| !row.is_empty()), "{tests:?}");
    let missing: Vec<String> =
        tests.iter().flatten().filter(|test| !exists(test)).map(|test| (*test).to_owned()).collect();
    none("tests named in security.md that do not exist", &missing);
}

#[test]
fn readme_shows_plan_of_first_command() {
    let readme = read("README.md");
    let excerpt = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an excerpt");
    let (plan, _) = excerpt.split_once("\nPlan: ").expect("the plan ends with its counts");
    let example = root().join("examples/repo-layout");
    let shown = nodecfg(&["sync", example.to_str().unwrap(), "--worktree", "--sandbox", "--dry-run"]);
    let stale: Vec<String> = plan
        .lines()
        .filter(|line| !matches!(line.trim(), "" | "…") && !shown.lines().any(|is| is == *line))
        .map(str::to_owned)
        .collect();
    none("not what `sync --sandbox` prints", &stale);
    assert!(plan.lines().count() > 5, "{plan}");
}
