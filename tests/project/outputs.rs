//! Tests that all `-o json` outputs, including errors, match the schemas in `schemas/output/`, and that SARIF and
//! JUnit outputs match theirs. The schemas are closed first, so that undescribed fields fail.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const NODECFG: &str = env!("CARGO_BIN_EXE_nodecfg");

/// Output kinds: name of the schema, and `kind` of the document.
const KINDS: &[(&str, &str)] = &[
    ("abort", "Abort"),
    ("agent-pass", "AgentPass"),
    ("agent-status", "AgentStatus"),
    ("capture", "Capture"),
    ("diff", "Diff"),
    ("doctor", "Doctor"),
    ("effective", "Effective"),
    ("error", "Error"),
    ("events", ""),
    ("code", "CodeExplanation"),
    ("explanation", "Explanation"),
    ("initialization", "Initialization"),
    ("gates", "Gates"),
    ("history", "History"),
    ("installation", "Installation"),
    ("pruning", "Pruning"),
    ("release", "Release"),
    ("reservations", "Reservations"),
    ("pool-orders", "PoolOrders"),
    ("status", "Status"),
    ("status-lines", ""),
    ("validation", "Validation"),
    ("version", "Version"),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

/// Result of one run.
struct Run {
    line: String,
    exit: i32,
    out: String,
    err: String,
}

impl Run {
    fn document(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}\n{}", self.line, self.out, self.err))
    }

    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Checks the exit code and the document against the schema of this name.
    #[track_caller]
    fn is(&self, exit: i32, schema: &str) -> Value {
        assert_eq!(self.exit, exit, "{}\n{}\n{}", self.line, self.out, self.err);
        let document = self.document();
        let kind = KINDS.iter().find(|(name, _)| *name == schema).unwrap().1;
        assert_eq!((&document["kind"], &document["formatVersion"]), (&json!(kind), &json!(1)), "{}", self.line);
        conforms(schema, &document, &self.line);
        document
    }

    /// Checks the exit code and every line against the schema of events. Returns the events.
    #[track_caller]
    fn are_events(&self, exit: i32) -> BTreeSet<String> {
        assert_eq!(self.exit, exit, "{}\n{}\n{}", self.line, self.out, self.err);
        let lines = self.lines();
        for line in &lines {
            assert_eq!(line["formatVersion"], 1, "{line}");
            assert!(line["kind"].is_string(), "{line}");
            conforms("events", line, &self.line);
        }
        lines.iter().filter_map(|line| line["event"].as_str()).map(str::to_owned).collect()
    }
}

/// A folder to run in, optionally with a cluster.
struct Workspace {
    home: tempfile::TempDir,
    cluster: Option<Child>,
}

/// A running command, killed on drop.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(workspace: &Workspace, arguments: &[&str]) -> Self {
        let mut child = workspace.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next lines, up to one with this event.
    fn until(&mut self, event: &str) -> Vec<Value> {
        let mut read = Vec::new();
        while read.last().is_none_or(|line: &Value| line["event"] != event) {
            read.push(serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap());
        }
        read
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            let _ = cluster.kill();
            let _ = cluster.wait();
        }
    }
}

impl Workspace {
    fn without_cluster() -> Self {
        Self { home: tempfile::tempdir().unwrap(), cluster: None }
    }

    /// Serves a cluster with these arguments of `sandbox`.
    fn with_cluster(arguments: &[&str]) -> Self {
        let mut workspace = Self::without_cluster();
        let child = workspace
            .command(&["sandbox", "--speed", "10", "--kubeconfig-out", "kubeconfig"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        workspace.cluster = Some(child);
        let begin = Instant::now();
        while !fs::metadata(workspace.home.path().join("kubeconfig")).is_ok_and(|file| file.len() > 0) {
            assert!(begin.elapsed() < Duration::from_secs(300), "the sandbox does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
        workspace
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(NODECFG);
        let home = self.home.path();
        command.env_clear().env("HOME", home).env("KUBECONFIG", home.join("kubeconfig")).current_dir(home);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &str) -> Run {
        let mut all: Vec<&str> = arguments.split_whitespace().collect();
        all.extend(["-o", "json"]);
        let output = self.command(&all).output().unwrap();
        Run {
            line: format!("nodecfg {}", all.join(" ")),
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn schema(name: &str) -> Value {
    let path = root().join(format!("schemas/output/{name}.v1.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Closes every object: undescribed properties are rejected. A branch of `allOf` and the like is closed with the
/// object that contains the branch, if that object has properties.
fn close(schema: &mut Value, is_part: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    let described = map.contains_key("properties");
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => schemas.values_mut().for_each(|one| close(one, false)),
            ("oneOf" | "anyOf" | "allOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|one| close(one, is_part || described));
            }
            ("items" | "additionalProperties", value) => close(value, false),
            _ => {}
        }
    }
    if described && !is_part && !map.contains_key("additionalProperties") {
        map.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

#[track_caller]
fn conforms(name: &str, document: &Value, what: &str) {
    let mut schema = schema(name);
    close(&mut schema, false);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(
        errors.is_empty(),
        "{what}: does not match schemas/output/{name}.v1.json:\n{}\n{document:#}",
        errors.join("\n")
    );
}

#[test]
fn schemas_equal_program_output_for_every_kind() {
    let workspace = Workspace::without_cluster();
    let there: BTreeSet<String> = fs::read_dir(root().join("schemas/output"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = KINDS.iter().map(|(name, _)| format!("{name}.v1.json")).collect();
    assert_eq!(there, known);
    for (name, _) in KINDS {
        let output = workspace.command(&["schema", name]).output().unwrap();
        let committed = fs::read_to_string(root().join(format!("schemas/output/{name}.v1.json"))).unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            committed,
            "nodecfg schema {name} > schemas/output/{name}.v1.json"
        );
    }
}

#[test]
fn closed_schema_rejects_undescribed_fields() {
    let mut document = Workspace::without_cluster().run("explain maxPods").is(0, "explanation");
    document["more"] = json!(1);
    assert!(std::panic::catch_unwind(|| conforms("explanation", &document, "")).is_err());
}

#[test]
fn effective_configurations_match_their_schema() {
    let workspace = Workspace::without_cluster();
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    workspace.file("good.yaml", &format!("{head}syncFrequency: -1s\n"));
    let shown = workspace.run("effective --config good.yaml").is(0, "effective");
    assert_eq!(shown["startup"].as_array().unwrap().len(), 1);
    workspace.run("effective --config missing.yaml").is(3, "effective");
    workspace.run("effective --nonsense").is(2, "error");
}

#[test]
fn commands_without_cluster_match_schemas() {
    let workspace = Workspace::without_cluster();
    workspace.run(&format!("validate {}", example("repo-layout"))).is(0, "validation");
    workspace.run(&format!("validate {} --kubernetes-version 1.21,1.36", example("zero-config"))).is(0, "validation");
    workspace.file("bad.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 1\nmaxPods: 1\nmaxPods: 2\npodLogsDir: /x\nstaticPodPath: /y\n");
    workspace.file("worse.yaml", "a: [\n");
    let found = workspace.run("validate bad.yaml worse.yaml missing.yaml").is(3, "validation");
    assert_eq!(found["files"].as_array().unwrap().len(), 3);
    workspace.file("repository/pools/gpu/kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Kubelet\n");
    workspace.run("validate repository").is(3, "validation");

    for field in
        ["", "maxPods", "evictionHard", "logging --recursive", "featureGates.NodeSwap", "registerWithTaints.effect"]
    {
        workspace.run(&format!("explain {field}")).is(0, "explanation");
    }
    workspace.run("explain featureGates.CPUManager --kubernetes-version 1.24").is(0, "explanation");
    workspace.run("explain always-allow").is(0, "code");
    workspace.run("explain reserve").is(0, "reservations");
    workspace.run("version").is(0, "version");
    workspace.run("explain cluster-forbidden").is(0, "code");
    workspace.run("explain nonsense").is(2, "error");
    workspace.run("sync --nonsense").is(2, "error");
    workspace.run("validate nowhere-at-all").is(3, "validation");
    workspace.run("diff nowhere").is(3, "error");
    let invalid = workspace.run("diff repository").is(3, "error");
    assert!(invalid["validation"]["files"].is_array());
    workspace.run(&format!("diff {} --kubeconfig none", example("repo-layout"))).is(4, "error");
    workspace.run("status --kubeconfig none").is(4, "error");
    workspace.run("install --kubeconfig none").is(4, "error");
    workspace.run("doctor --kubeconfig none").is(4, "doctor");
    workspace.run("doctor repository --kubeconfig none").is(3, "doctor");
    // Kubernetes objects identify themselves by apiVersion and kind.
    assert_eq!(workspace.run("install --print crd").document()["kind"], "CustomResourceDefinition");
    assert_eq!(workspace.run("install --agent daemonset --image agent:1 --dry-run").document()["kind"], "List");
}

#[test]
fn rollout_and_readers_match_schemas() {
    let repository = example("repo-layout");
    let workspace = Workspace::with_cluster(&["--repo", &repository, "--nodes", "2"]);
    workspace.run("status").is(0, "status");
    workspace.run("capture general-1").is(0, "capture");
    workspace.run("capture --pool general --drop-defaults").is(0, "capture");
    workspace.run("capture nowhere-1").is(2, "error");
    workspace.run("init started").is(0, "initialization");
    workspace.run("init started").is(2, "error");
    workspace.run("init example --no-cluster").is(0, "initialization");
    workspace.run(&format!("doctor {repository}")).is(0, "doctor");
    workspace.run("install --agent daemonset --image agent:1").is(0, "installation");
    let fresh = workspace.run(&format!("diff {repository}")).is(1, "diff");
    assert!(fresh["cluster"]["plan"].is_string());
    workspace.run(&format!("sync {repository} --dry-run")).is(0, "diff");
    let order = |line: &str| workspace.run(line).is(0, "pool-orders")["pools"][0]["result"].clone();
    let fleet = fresh["fleet"].as_str().unwrap();
    assert_eq!(
        order(&format!("pause gpu --fleet {fleet} --namespace nodecfg-system --allow-unknown --reason disks")),
        "paused"
    );
    assert_eq!(order(&format!("pause gpu --fleet {fleet} --reason fans")), "updated");
    workspace.run(&format!("pause nosuch --fleet {fleet} --reason disks")).is(2, "error");
    let paused = workspace.run(&format!("diff {repository}")).is(1, "diff");
    assert!(paused["pools"].as_array().unwrap().iter().any(|pool| pool["rollout"]["pause"]["reason"] == "fans"));
    workspace.run(&format!("diff {repository} --out paused.json")).is(1, "diff");
    assert_eq!(order(&format!("resume gpu --fleet {fleet}")), "resumed");
    workspace.run(&format!("sync {repository} --plan paused.json")).are_events(7);
    let nothing = workspace.run(&format!("abort --fleet {fleet}")).is(0, "abort");
    assert_eq!(nothing["result"], "nothingRuns");
    workspace.run(&format!("diff {repository} --out plan.json")).is(1, "diff");
    let mut watch = Watch::start(&workspace, &["status", "--watch", "-o", "json"]);
    let mut lines = watch.until("status");
    let events = workspace.run(&format!("sync {repository}")).are_events(0);
    lines.extend(watch.until("node"));
    assert_eq!(lines[0]["kind"], "Status");
    lines.iter().for_each(|line| conforms("status-lines", line, "status --watch"));
    for event in ["started", "planned", "configMapCreated", "assigned", "converged", "soaking", "soaked", "finished"] {
        assert!(events.contains(event), "no {event} in {events:?}");
    }
    workspace.run(&format!("sync {repository}")).are_events(0);
    workspace.run(&format!("verify {repository}")).are_events(0);
    let gates = workspace.run(&format!("gates {repository}")).is(0, "gates");
    assert_eq!(gates["gates"], json!([]));
    workspace.run("prune --dry-run").is(0, "pruning");
    workspace.run("prune --yes").is(0, "pruning");
    workspace.run("release --all --dry-run").is(0, "release");
    let node = workspace.run("status").is(0, "status")["nodes"][0]["node"].as_str().unwrap().to_owned();
    let released = workspace.run(&format!("release {node} --yes")).is(0, "release");
    assert_eq!(released["nodes"], json!([{"node": node, "pool": null, "since": null, "end": {"kind": "unmarked"}}]));
    workspace.run("release nosuch --yes").is(2, "error");
    // The plan was applied already.
    workspace.run(&format!("sync {repository} --plan plan.json")).are_events(7);
    workspace.run(&format!("diff {repository}")).is(0, "diff");
    let compared = workspace.run(&format!("status {repository}")).is(0, "status");
    assert_eq!(compared["states"].as_object().unwrap().keys().collect::<Vec<_>>(), ["onTrial"]);
    let status = workspace.run("status").is(0, "status");
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["verdict"]["state"] == "converged"));
}

#[test]
fn comparison_of_revisions_matches_schema() {
    let workspace = Workspace::without_cluster();
    let folder = workspace.home.path().join("repository");
    let repository = git2::Repository::init(&folder).unwrap();
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for (pool, max_pods) in [("general", 20), ("general", 30), ("gpu", 30)] {
        workspace.file(&format!("repository/pools/{pool}/kubelet.yaml"), &format!("{kubelet}maxPods: {max_pods}\n"));
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::new("somebody", "somebody@example.com", &git2::Time::new(0, 0)).unwrap();
        let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, "change", &tree, &parents).unwrap();
    }
    let diff = |more: &str, exit| workspace.run(&format!("diff repository {more}")).is(exit, "diff");
    assert_eq!(diff("--against HEAD~1", 1)["pools"][0]["change"], "added");
    assert_eq!(diff("--rev HEAD~1 --against HEAD~2", 1)["worst"], "restart");
    assert_eq!(diff("--rev HEAD~2 --against HEAD~1", 1)["worst"], "drain");
    assert_eq!(diff("--rev HEAD~1 --against HEAD", 1)["changed"], true);
    assert_eq!(diff("--against HEAD", 0)["changed"], false);
    let history = workspace.run("history general repository --no-cluster").is(0, "history");
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2);
}

#[test]
fn failed_rollout_matches_schemas() {
    let repository = example("repo-layout");
    let workspace = Workspace::without_cluster();
    let sync =
        |more: &str| workspace.run(&format!("sync {repository} --sandbox --sandbox-nodes 2 --sandbox-speed 10 {more}"));
    let events = sync("--fault gpu-1=validate-error").are_events(5);
    assert!(events.contains("failed") && events.contains("stopped"), "{events:?}");
    let events = sync("--fault gpu-1=no-start --rollback-on-failure --sandbox-version 1.36").are_events(5);
    assert!(events.contains("rolledBack"), "{events:?}");
}

#[test]
fn failed_verify_matches_schemas() {
    let repository = example("zero-config");
    let workspace = Workspace::with_cluster(&["--repo", &repository, "--nodes", "1", "--kubernetes-version", "1.21"]);
    let events = workspace.run(&format!("verify {repository}")).are_events(5);
    assert!(events.contains("finished"), "{events:?}");
}

#[test]
fn agent_documents_match_schemas() {
    // The tests of the agent crate run the program. This test creates each of its documents.
    use nodecfg_agent::cli::description::AgentStatus;
    use nodecfg_agent::cli::pass::{AgentPass, PassResult};
    use nodecfg_contract::json_document::Document;
    let store = tempfile::tempdir().unwrap();
    let found = nodecfg_agent::store::inspect(&nodecfg_agent::disk::real::RealDisk::unlocked(), store.path());
    let document = Document::value(AgentStatus { folder: "store", found: &found }).unwrap();
    conforms("agent-status", &document, "nodecfg-agent status");
    for (result, error) in [
        (PassResult::Settled, None),
        (PassResult::NoNodeConfig, None),
        (PassResult::Failed, Some("failed trial")),
        (PassResult::Unfinished, None),
    ] {
        let document = Document::value(AgentPass { node: "n1", result, error, message: error }).unwrap();
        conforms("agent-pass", &document, "nodecfg-agent --once");
    }
}

// --- formats of other projects ---

/// Requirements of the SARIF 2.1.0 schema (OASIS, sarif-schema-2.1.0.json) for the objects that nodecfg writes:
/// required properties and allowed values.
#[test]
fn sarif_matches_its_schema() {
    let workspace = Workspace::without_cluster();
    workspace.file(
        "bad.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 1\nmaxPods: 2\nfoo: 1\n",
    );
    let output = workspace.command(&["validate", "bad.yaml", "-o", "sarif"]).output().unwrap();
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let has = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "no {key} in {value:#}");
        }
    };
    has(&log, &["version", "runs"]);
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
    let run = &log["runs"][0];
    has(run, &["tool"]);
    has(&run["tool"], &["driver"]);
    has(&run["tool"]["driver"], &["name"]);
    assert!(["utf16CodeUnits", "unicodeCodePoints"].contains(&run["columnKind"].as_str().unwrap()));
    let levels = ["none", "note", "warning", "error"];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let ids: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rules.len(), "rules are unique");
    for rule in rules {
        has(rule, &["id"]);
        // A multiformatMessageString requires a text.
        for message in ["shortDescription", "fullDescription", "help"] {
            assert!(rule[message]["text"].is_string(), "{rule:#}");
        }
        assert!(levels.contains(&rule["defaultConfiguration"]["level"].as_str().unwrap()));
    }
    for invocation in run["invocations"].as_array().unwrap() {
        assert!(invocation["executionSuccessful"].is_boolean(), "the one property that an invocation must have");
    }
    let results = run["results"].as_array().unwrap();
    assert!(results.len() > 1);
    for result in results {
        has(result, &["message"]);
        assert!(result["message"]["text"].is_string());
        assert!(levels.contains(&result["level"].as_str().unwrap()));
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap_or_default()).unwrap()];
        assert!(ids.contains(result["ruleId"].as_str().unwrap()), "{rule}");
        for location in result["locations"].as_array().unwrap() {
            let physical = &location["physicalLocation"];
            // Either `address` or `artifactLocation`; lines and columns start at 1.
            assert!(physical["artifactLocation"]["uri"].is_string());
            for number in physical["region"].as_object().unwrap().values() {
                assert!(number.as_u64().unwrap() >= 1);
            }
        }
        for print in result["partialFingerprints"].as_object().into_iter().flatten() {
            assert!(print.1.is_string());
        }
    }
}

/// Requirements of JUnit readers: junit-10.xsd of Jenkins requires names of suites and cases. `tests`, `failures` and
/// `errors` are integers that equal the number of elements.
#[test]
fn junit_meets_requirements_of_readers() {
    let workspace = Workspace::without_cluster();
    workspace.file(
        "bad.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 1\nfoo: <1>\n",
    );
    let output = workspace.command(&["validate", "bad.yaml", "-o", "junit"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    let mut seen: Vec<(String, std::collections::BTreeMap<String, String>)> = Vec::new();
    loop {
        use quick_xml::events::Event;
        match reader.read_event().expect("is XML") {
            Event::Start(element) | Event::Empty(element) => {
                let name = element.name().as_ref().to_owned();
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let key = attribute.key.as_ref().to_owned();
                    (key, attribute.value.to_string())
                });
                seen.push((name, attributes.collect()));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let count = |name: &str| seen.iter().filter(|(element, _)| element == name).count();
    let (first, suites) = &seen[0];
    assert_eq!(first, "testsuites");
    assert_eq!(suites["tests"].parse::<usize>().unwrap(), count("testcase"));
    assert_eq!(suites["failures"].parse::<usize>().unwrap(), count("failure"));
    assert!(count("failure") > 0);
    for (element, attributes) in &seen {
        let required: &[&str] = match element.as_str() {
            "testsuites" | "testsuite" => &["name", "tests", "failures", "errors"],
            "testcase" => &["name", "classname"],
            "failure" => &["message"],
            "system-out" => &[],
            other => panic!("readers do not expect {other}"),
        };
        for name in required {
            assert!(attributes.contains_key(*name), "{element} has no {name}");
        }
        for name in ["tests", "failures", "errors"] {
            assert!(attributes.get(name).is_none_or(|number| number.parse::<usize>().is_ok()), "{element} {name}");
        }
    }
}
