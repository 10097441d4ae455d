//! What every command writes with `-o json`, when it succeeds and when it does not, is what the schemas under
//! `schemas/output/` say, and nothing more: the schemas are closed here, so that a field that none describes is found. SARIF and
//! JUnit are held to what their own schemas require.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const NODECFG: &str = env!("CARGO_BIN_EXE_nodecfg");

/// Kinds of output, by the name of their schema, with the `kind` of a document.
const KINDS: &[(&str, &str)] = &[
    ("abort", "Abort"),
    ("agent-pass", "AgentPass"),
    ("agent-status", "AgentStatus"),
    ("capture", "Capture"),
    ("diff", "Diff"),
    ("doctor", "Doctor"),
    ("error", "Error"),
    ("events", ""),
    ("code", "CodeExplanation"),
    ("explanation", "Explanation"),
    ("initialization", "Initialization"),
    ("history", "History"),
    ("installation", "Installation"),
    ("pruning", "Pruning"),
    ("pool-orders", "PoolOrders"),
    ("status", "Status"),
    ("status-lines", ""),
    ("validation", "Validation"),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

/// What one run brought.
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

    /// Holds the document against the schema of this name.
    #[track_caller]
    fn is(&self, exit: i32, schema: &str) -> Value {
        assert_eq!(self.exit, exit, "{}\n{}\n{}", self.line, self.out, self.err);
        let document = self.document();
        let kind = KINDS.iter().find(|(name, _)| *name == schema).unwrap().1;
        assert_eq!((&document["kind"], &document["formatVersion"]), (&json!(kind), &json!(1)), "{}", self.line);
        conforms(schema, &document, &self.line);
        document
    }

    /// Holds every line against the schema of lines, and gives the events.
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

/// A folder to run in, with a cluster if one is wanted.
struct Place {
    home: tempfile::TempDir,
    cluster: Option<Child>,
}

/// A command that goes on, and is killed at the end.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next lines, up to one with this event.
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

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            let _ = cluster.kill();
            let _ = cluster.wait();
        }
    }
}

impl Place {
    fn without_cluster() -> Self {
        Self { home: tempfile::tempdir().unwrap(), cluster: None }
    }

    /// With a served cluster of these arguments.
    fn with_cluster(arguments: &[&str]) -> Self {
        let mut place = Self::without_cluster();
        let child = place
            .command(&["sandbox", "--speed", "10", "--kubeconfig-out", "kubeconfig"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        place.cluster = Some(child);
        let begin = Instant::now();
        while !fs::metadata(place.home.path().join("kubeconfig")).is_ok_and(|file| file.len() > 0) {
            assert!(begin.elapsed() < Duration::from_secs(300), "the sandbox does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
        place
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

/// Closes every object: what is not described is refused. A part of an object, within `allOf` and the like of one that has
/// properties itself, is closed with the whole.
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
        "{what}: not as schemas/output/{name}.v1.json says:\n{}\n{document:#}",
        errors.join("\n")
    );
}

#[test]
fn the_schemas_are_what_the_program_prints_and_there_is_one_for_every_kind() {
    let place = Place::without_cluster();
    let there: BTreeSet<String> = fs::read_dir(root().join("schemas/output"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = KINDS.iter().map(|(name, _)| format!("{name}.v1.json")).collect();
    assert_eq!(there, known);
    for (name, _) in KINDS {
        let output = place.command(&["schema", name]).output().unwrap();
        let committed = fs::read_to_string(root().join(format!("schemas/output/{name}.v1.json"))).unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            committed,
            "nodecfg schema {name} > schemas/output/{name}.v1.json"
        );
    }
}

#[test]
fn a_closed_schema_refuses_what_it_does_not_describe() {
    let mut document = Place::without_cluster().run("explain maxPods").is(0, "explanation");
    document["more"] = json!(1);
    assert!(std::panic::catch_unwind(|| conforms("explanation", &document, "")).is_err());
}

#[test]
fn commands_without_a_cluster() {
    let place = Place::without_cluster();
    place.run(&format!("validate {}", example("repo-layout"))).is(0, "validation");
    place.run(&format!("validate {} --kubernetes-version 1.21,1.36", example("zero-config"))).is(0, "validation");
    place.file("bad.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 1\nmaxPods: 1\nmaxPods: 2\npodLogsDir: /x\nstaticPodPath: /y\n");
    place.file("worse.yaml", "a: [\n");
    let found = place.run("validate bad.yaml worse.yaml missing.yaml").is(3, "validation");
    assert_eq!(found["files"].as_array().unwrap().len(), 3);
    place.file("repository/pools/gpu/kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Kubelet\n");
    place.run("validate repository").is(3, "validation");

    for field in
        ["", "maxPods", "evictionHard", "logging --recursive", "featureGates.NodeSwap", "registerWithTaints.effect"]
    {
        place.run(&format!("explain {field}")).is(0, "explanation");
    }
    place.run("explain featureGates.CPUManager --kubernetes-version 1.24").is(0, "explanation");
    place.run("explain always-allow").is(0, "code");
    place.run("explain cluster-forbidden").is(0, "code");
    place.run("explain nonsense").is(2, "error");
    place.run("sync --nonsense").is(2, "error");
    place.run("validate nowhere-at-all").is(3, "validation");
    place.run("diff nowhere").is(3, "error");
    let invalid = place.run("diff repository").is(3, "error");
    assert!(invalid["validation"]["files"].is_array());
    place.run(&format!("diff {} --kubeconfig none", example("repo-layout"))).is(4, "error");
    place.run("status --kubeconfig none").is(4, "error");
    place.run("install --kubeconfig none").is(4, "error");
    place.run("doctor --kubeconfig none").is(4, "doctor");
    place.run("doctor repository --kubeconfig none").is(3, "doctor");
    // Objects of Kubernetes are not documents of nodecfg: they say what they are in Kubernetes' way.
    assert_eq!(place.run("crd").document()["kind"], "CustomResourceDefinition");
    assert_eq!(place.run("install --agent daemonset --image agent:1 --dry-run").document()["kind"], "List");
}

#[test]
fn a_rollout_and_everything_that_looks_at_it() {
    let repository = example("repo-layout");
    let place = Place::with_cluster(&["--repo", &repository, "--nodes", "2"]);
    place.run("status").is(0, "status");
    place.run("capture general-1").is(0, "capture");
    place.run("capture --pool general --drop-defaults").is(0, "capture");
    place.run("capture nowhere-1").is(2, "error");
    place.run("init started").is(0, "initialization");
    place.run("init started").is(2, "error");
    place.run("init example --no-cluster").is(0, "initialization");
    place.run(&format!("doctor {repository}")).is(0, "doctor");
    place.run("install --agent daemonset --image agent:1").is(0, "installation");
    let fresh = place.run(&format!("diff {repository}")).is(1, "diff");
    assert!(fresh["cluster"]["plan"].is_string());
    place.run(&format!("sync {repository} --dry-run")).is(0, "diff");
    let order = |line: &str| place.run(line).is(0, "pool-orders")["pools"][0]["result"].clone();
    let fleet = fresh["fleet"].as_str().unwrap();
    assert_eq!(
        order(&format!("pause gpu --fleet {fleet} --namespace nodecfg-system --allow-unknown --reason disks")),
        "paused"
    );
    assert_eq!(order(&format!("pause gpu --fleet {fleet} --reason fans")), "updated");
    place.run(&format!("pause nosuch --fleet {fleet} --reason disks")).is(2, "error");
    let paused = place.run(&format!("diff {repository}")).is(1, "diff");
    assert!(paused["pools"].as_array().unwrap().iter().any(|pool| pool["rollout"]["pause"]["reason"] == "fans"));
    place.run(&format!("diff {repository} --out paused.json")).is(1, "diff");
    assert_eq!(order(&format!("resume gpu --fleet {fleet}")), "resumed");
    place.run(&format!("sync {repository} --plan paused.json")).are_events(7);
    let nothing = place.run(&format!("abort --fleet {fleet}")).is(0, "abort");
    assert_eq!(nothing["result"], "nothingRuns");
    place.run(&format!("diff {repository} --out plan.json")).is(1, "diff");
    let mut watch = Watch::start(&place, &["status", "--watch", "-o", "json"]);
    let mut told = watch.until("status");
    let events = place.run(&format!("sync {repository}")).are_events(0);
    told.extend(watch.until("node"));
    assert_eq!(told[0]["kind"], "Status");
    told.iter().for_each(|line| conforms("status-lines", line, "status --watch"));
    for event in ["started", "planned", "configMapCreated", "assigned", "converged", "soaking", "soaked", "finished"] {
        assert!(events.contains(event), "no {event} in {events:?}");
    }
    place.run(&format!("sync {repository}")).are_events(0);
    place.run(&format!("verify {repository}")).are_events(0);
    place.run("prune --dry-run").is(0, "pruning");
    place.run("prune --yes").is(0, "pruning");
    // Carried out already.
    place.run(&format!("sync {repository} --plan plan.json")).are_events(7);
    place.run(&format!("diff {repository}")).is(0, "diff");
    let compared = place.run(&format!("status {repository}")).is(0, "status");
    assert_eq!(compared["states"].as_object().unwrap().keys().collect::<Vec<_>>(), ["converged"]);
    let status = place.run("status").is(0, "status");
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["verdict"]["state"] == "converged"));
}

#[test]
fn two_revisions_compared() {
    let place = Place::without_cluster();
    let folder = place.home.path().join("repository");
    let repository = git2::Repository::init(&folder).unwrap();
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for (pool, max_pods) in [("general", 20), ("general", 30), ("gpu", 30)] {
        place.file(&format!("repository/pools/{pool}/kubelet.yaml"), &format!("{kubelet}maxPods: {max_pods}\n"));
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::new("somebody", "somebody@example.com", &git2::Time::new(0, 0)).unwrap();
        let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, "change", &tree, &parents).unwrap();
    }
    let diff = |more: &str, exit| place.run(&format!("diff repository {more}")).is(exit, "diff");
    assert_eq!(diff("--against HEAD~1", 1)["pools"][0]["change"], "added");
    assert_eq!(diff("--rev HEAD~1 --against HEAD~2", 1)["worst"], "restart");
    assert_eq!(diff("--rev HEAD~2 --against HEAD~1", 1)["worst"], "drain");
    assert_eq!(diff("--rev HEAD~1 --against HEAD", 1)["changed"], true);
    assert_eq!(diff("--against HEAD", 0)["changed"], false);
    let history = place.run("history general repository --no-cluster").is(0, "history");
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_rollout_that_fails() {
    let repository = example("repo-layout");
    let place = Place::without_cluster();
    let sync =
        |more: &str| place.run(&format!("sync {repository} --sandbox --sandbox-nodes 2 --sandbox-speed 10 {more}"));
    let events = sync("--fault gpu-1=validate-error").are_events(5);
    assert!(events.contains("failed") && events.contains("stopped"), "{events:?}");
    let events = sync("--fault gpu-1=no-start --rollback-on-failure --sandbox-version 1.36").are_events(5);
    assert!(events.contains("rolledBack"), "{events:?}");
}

#[test]
fn what_verify_waits_for_in_vain() {
    let repository = example("zero-config");
    let place = Place::with_cluster(&["--repo", &repository, "--nodes", "1", "--kubernetes-version", "1.21"]);
    let events = place.run(&format!("verify {repository} --timeout 1s")).are_events(5);
    assert!(events.contains("finished"), "{events:?}");
}

#[test]
fn what_an_agent_says() {
    // The program itself is run by the tests of its crate. Here is each of its documents as it is made.
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

// --- the formats of others ---

/// What the schema of SARIF 2.1.0 (OASIS, sarif-schema-2.1.0.json) requires of the objects that are written here: the properties
/// that each must have, by where they are, and the values that some may have.
#[test]
fn sarif_has_what_its_schema_requires() {
    let place = Place::without_cluster();
    place.file(
        "bad.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 1\nmaxPods: 2\nfoo: 1\n",
    );
    let output = place.command(&["validate", "bad.yaml", "-o", "sarif"]).output().unwrap();
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
        // A multiformatMessageString must have a text.
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
            // One of `address` and `artifactLocation`; lines and columns count from 1.
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

/// What readers of JUnit take for granted: Jenkins' junit-10.xsd requires a name of suites and cases, and `tests`, `failures` and
/// `errors` are whole numbers that agree with what is there.
#[test]
fn junit_has_what_its_readers_require() {
    let place = Place::without_cluster();
    place.file(
        "bad.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 1\nfoo: <1>\n",
    );
    let output = place.command(&["validate", "bad.yaml", "-o", "junit"]).output().unwrap();
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
