//! Files of deploy/monitoring on the data of real runs: alerts and queries in promtool, if the program `promtool` is
//! installed, and the health check of Argo CD, if the program `lua5.1` is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nodecfg::telemetry::textfile;
use nodecfg_agent::metrics::Metrics;
use nodecfg_agent::store::Store;
use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Cluster, ClusterSetup, Repository, print_line, until};

scenarios! {
    SandboxAgents {
        alerts_fire_for_a_failed_rollout_and_not_before,
        health_check_follows_nodes,
    }
}

/// Length of the series, in minutes.
const MINUTES: usize = 600;
/// End of each run, in seconds from the begin of the series.
const ENDED: f64 = 300.0;

/// A firing alert: its labels, without `severity`.
type Alert = &'static [(&'static str, &'static str)];

const NOT_SUCCEEDING: Alert = &[("alertname", "NodecfgNotSucceeding"), ("command", "sync"), ("fleet", "test")];
const RUN_FAILED: Alert = &[("alertname", "NodecfgRunFailed"), ("command", "sync"), ("fleet", "test")];
const NODES_FAILED: Alert =
    &[("alertname", "NodecfgNodesFailed"), ("fleet", "test"), ("kind", "rejected"), ("pool", "a")];
const DRIFT: Alert = &[("alertname", "NodecfgDrift"), ("fleet", "test"), ("pool", "a")];
const DRAINING: Alert = &[("alertname", "NodecfgNodesDraining"), ("fleet", "test")];
const AGENT_ERRORS: Alert = &[("alertname", "NodecfgAgentErrors"), ("job", "nodecfg-agent")];
const ROLLBACKS: Alert = &[("alertname", "NodecfgAgentRollbacks"), ("job", "nodecfg-agent")];

fn deployed(name: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/monitoring").join(name)).unwrap()
}

/// Samples of one time: of the metrics file, and of all agents.
type Samples = BTreeMap<String, f64>;

/// Reads the samples of a metrics file, whose run ends at [`ENDED`].
fn of_run(file: &Path) -> Samples {
    let lines = textfile::parse(&fs::read_to_string(file).unwrap()).unwrap();
    let ended = lines.iter().find(|(name, ..)| name == "nodecfg_run_timestamp_seconds").unwrap().2;
    let shift = |name: &str| if name.ends_with("_timestamp_seconds") { ENDED - ended } else { 0.0 };
    lines.into_iter().map(|(name, labels, value)| (series(&name, labels), value + shift(&name))).collect()
}

/// Samples of the agents, as Prometheus scrapes them.
async fn of_agents(cluster: &Cluster, nodes: &[&str]) -> Samples {
    let mut samples = Samples::new();
    for &node in nodes {
        let ledger = Store::new(Path::new("/var/lib/nodecfg")).load(&cluster.disk(node)).unwrap();
        let object = cluster.assignment_object(node).await;
        let metrics = Metrics::default();
        metrics.update(&ledger, object.pointer("/status/config/error").is_some_and(Value::is_string));
        for (name, mut labels, value) in textfile::parse(&metrics.text()).unwrap() {
            labels.extend([("instance", node), ("job", "nodecfg-agent")].map(|(k, v)| (k.to_owned(), v.to_owned())));
            samples.insert(series(&name, labels), value);
        }
    }
    samples
}

fn series(name: &str, labels: BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.into_iter().map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

/// Series that have the values of `before` for ten minutes, and those of `after` from then on.
fn changed(before: &Samples, after: &Samples) -> Vec<Value> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let part = |value: Option<&f64>, steps: usize| match value {
        Some(value) => format!("{value}+0x{}", steps - 1),
        None => format!("_x{steps}"),
    };
    let values = |name: &String| format!("{} {}", part(before.get(name), 10), part(after.get(name), MINUTES - 10));
    names.into_iter().map(|name| json!({"series": name, "values": values(name)})).collect()
}

/// The rule file for Prometheus, with a recording rule for each query of the dashboard.
fn rule_file() -> Value {
    let rules: Value = serde_saphyr::from_str(&deployed("rules.yaml")).unwrap();
    let mut groups = rules["spec"]["groups"].as_array().unwrap().clone();
    let dashboard: Value = serde_json::from_str(&deployed("dashboard.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries =
        targets.map(|target| target["expr"].as_str().unwrap().replace("$fleet", ".*").replace("$command", ".*"));
    let recorded: Vec<Value> =
        queries.enumerate().map(|(n, expr)| json!({"record": format!("dashboard:query:{n}"), "expr": expr})).collect();
    groups.push(json!({"name": "dashboard", "rules": recorded}));
    json!({"groups": groups})
}

/// Checks that exactly these alerts fire at these minutes, and that `shown` queries of the dashboard have data.
/// Returns `false` without promtool.
fn check(input: Vec<Value>, expected: &[(u64, &[Alert])], shown: Option<usize>) -> bool {
    let folder = TempDir::new().unwrap();
    let firing = |(minute, alerts): &(u64, &[Alert])| {
        let of = |alert: &Alert| {
            let labels: Vec<String> = alert.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
            json!({"labels": format!("{{{}}}", labels.join(", ")), "value": 1})
        };
        json!({
            "expr": "max without (__name__, alertstate, severity) (ALERTS{alertstate=\"firing\"})",
            "eval_time": format!("{minute}m"),
            "exp_samples": alerts.iter().map(of).collect::<Vec<_>>(),
        })
    };
    let mut tests: Vec<Value> = expected.iter().map(firing).collect();
    tests.extend(shown.map(|count| {
        json!({
            "expr": "count(group by (__name__) ({__name__=~\"dashboard:query:.*\"}))",
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": count}],
        })
    }));
    let test = json!({
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": input, "promql_expr_test": tests}],
    });
    // JSON is YAML.
    fs::write(folder.path().join("rules.json"), rule_file().to_string()).unwrap();
    fs::write(folder.path().join("test.json"), test.to_string()).unwrap();
    for arguments in [["check", "rules", "rules.json"], ["test", "rules", "test.json"]] {
        let output = match Command::new("promtool").args(arguments).current_dir(folder.path()).output() {
            Ok(output) => output,
            Err(_) => {
                print_line("skipped: the program promtool is missing");
                return false;
            }
        };
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "promtool {arguments:?}: {text}");
    }
    true
}

async fn alerts_fire_for_a_failed_rollout_and_not_before(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let nodes = ["a-1", "a-2", "a-3"];
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    let file = cluster.home().join("sync.prom");
    let sync = async || cluster.sync(&repository, &["--metrics-textfile", file.to_str().unwrap()]).await;
    let samples = async || of_run(&file).into_iter().chain(of_agents(&cluster, &nodes).await).collect::<Samples>();
    sync().await.exits(0);
    let first = samples().await;
    repository.change("a", "maxPods: 115");
    sync().await.exits(0);
    let good = samples().await;
    let queries = rule_file()["groups"].as_array().unwrap().last().unwrap()["rules"].as_array().unwrap().len();
    // The file ages: no later run replaces it.
    let quiet: &[(u64, &[Alert])] =
        &[(1, &[]), (12, &[]), (40, &[]), (65, &[]), (66, &[NOT_SUCCEEDING]), (500, &[NOT_SUCCEEDING])];
    if !check(changed(&first, &good), quiet, Some(queries)) {
        return cluster.down().await;
    }

    // Each of these failures is a rollback, also if the previous configuration has passed its trial meanwhile.
    cluster.fault("a-2", Some(Fault::RestartFails)).await;
    repository.change("a", "maxPods: 120");
    sync().await.exits(5);
    let failed_node = "the agent of the failed node reports the error, and has counted its return";
    until(failed_node, async || {
        let samples = of_agents(&cluster, &["a-2"]).await;
        ["kubelet_node_config_error", "nodecfg_agent_rollbacks_total"]
            .iter()
            .all(|metric| samples.iter().any(|(name, value)| name.starts_with(metric) && *value == 1.0))
    })
    .await;
    let difference = cluster.home().join("diff.prom");
    cluster.run("diff", &repository, &["--metrics-textfile", difference.to_str().unwrap()]).await.exits(1);
    let failed: Samples = samples().await.into_iter().chain(of_run(&difference)).collect();
    let expected: &[(u64, &[Alert])] = &[
        (9, &[]),
        (12, &[NODES_FAILED, ROLLBACKS]),
        (28, &[NODES_FAILED, AGENT_ERRORS, ROLLBACKS]),
        (32, &[NODES_FAILED, RUN_FAILED, AGENT_ERRORS, ROLLBACKS]),
        (120, &[NODES_FAILED, RUN_FAILED, AGENT_ERRORS, NOT_SUCCEEDING]),
        (140, &[NODES_FAILED, RUN_FAILED, AGENT_ERRORS, NOT_SUCCEEDING, DRIFT]),
    ];
    check(changed(&good, &failed), expected, Some(queries));

    // After the next rollout, only a mark of a drain is left.
    let mut marked = good.clone();
    let marks = marked.iter_mut().find(|(name, _)| name.starts_with("nodecfg_nodes_draining{")).unwrap();
    *marks.1 = 1.0;
    marked.retain(|name, _| !name.starts_with("nodecfg_run_last_success_timestamp_seconds"));
    check(changed(&failed, &marked), &[(100, &[]), (140, &[DRAINING])], None);
    cluster.down().await;
}

/// A value as an expression of Lua.
fn expression(value: &Value) -> String {
    let quoted = |text: &str| {
        let mut quoted = String::from("\"");
        text.bytes().for_each(|byte| write!(quoted, "\\{byte:03}").unwrap());
        quoted + "\""
    };
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("{{{}}}", items.iter().map(expression).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("[{}]={}", quoted(name), expression(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
    }
}

/// Health and message of an object, or `None` without Lua.
fn health(object: &Value) -> Option<(String, String)> {
    let check = deployed("argo-cd-health.lua");
    // Argo CD disables these libraries by default.
    let program = format!(
        "local output = print\nstring, io, math, debug, coroutine, print = nil\nobj = {}\n\
         local function check()\n{check}\nend\nlocal health = check()\noutput(health.status)\noutput(health.message)\n",
        expression(object)
    );
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("check.lua");
    fs::write(&file, program).unwrap();
    let Ok(output) = Command::new("lua5.1").arg(&file).output() else {
        print_line("skipped: the program lua5.1 is missing");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (status, message) = text.trim_end().split_once('\n').unwrap();
    Some((status.to_owned(), message.to_owned()))
}

async fn health_check_follows_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).fault("a-2", Fault::ValidateError).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(5);
    let reported = |object: &Value, kind: &str| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        conditions.clone().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    until("agents report the result", async || {
        reported(&cluster.assignment_object("a-1").await, "Ready")
            && reported(&cluster.assignment_object("a-2").await, "Stalled")
    })
    .await;
    let (good, failed) = (cluster.assignment_object("a-1").await, cluster.assignment_object("a-2").await);
    cluster.down().await;
    let Some((status, _)) = health(&good) else { return };
    assert_eq!(status, "Healthy", "{good}");
    let (status, message) = health(&failed).unwrap();
    assert_eq!(status, "Degraded", "{failed}");
    assert!(message.starts_with("ValidationFailed: maxPods is -1; "), "{message}\n{failed}");

    // The states between.
    let mut assigned = failed.clone();
    assigned["metadata"]["generation"] = json!(assigned["metadata"]["generation"].as_u64().unwrap() + 1);
    assert_eq!(health(&assigned).unwrap().0, "Progressing", "the failure is that of the assignment before");
    let mut unread = good.clone();
    unread.as_object_mut().unwrap().remove("status");
    assert_eq!(health(&unread).unwrap().0, "Progressing");
    let with = |conditions: Value| {
        let mut object = good.clone();
        object["status"]["conditions"] = conditions;
        health(&object).unwrap()
    };
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason});
    let progressing = |message: &str| ("Progressing".to_owned(), message.to_owned());
    assert_eq!(with(json!([])), progressing("the agent reports no condition Ready"));
    let working = [
        condition("Ready", "False", "Unfinished"),
        condition("Reconciling", "True", "Activating"),
        condition("Stalled", "False", "Progressing"),
    ];
    assert_eq!(with(json!(working)), progressing("Activating"));
    let unknown = [
        condition("Ready", "Unknown", "NotRestarted"),
        condition("Reconciling", "False", "Converged"),
        condition("Stalled", "False", "Converged"),
    ];
    assert_eq!(with(json!(unknown)), progressing("NotRestarted"));
}
