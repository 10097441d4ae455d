//! Files of deploy/monitoring against the metrics, labels and conditions that the programs have.
//! tests/scenarios/alerts.rs runs them on real data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use nodecfg::telemetry::{metrics, textfile};
use nodecfg_agent::ledger::Ledger;
use nodecfg_agent::metrics::Metrics;
use nodecfg_contract::nodeconfig::{READY, RECONCILING, STALLED, definition};
use regex::Regex;
use serde_json::{Value, json};

const FOLDER: &str = "deploy/monitoring";

/// Words of PromQL and of Grafana's queries in the files.
const LANGUAGE: [&str; 7] = ["by", "count", "increase", "label_values", "max", "sum", "time"];

/// Labels that Prometheus adds to each series of a target.
const OF_TARGET: [&str; 2] = ["instance", "job"];

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Labels of each metric that the program or the agent exports.
fn exported() -> BTreeMap<String, BTreeSet<String>> {
    let own = metrics::ALL.iter().map(|metric| {
        let labels = metrics::COMMON.iter().chain(metric.labels).map(|label| (*label).to_owned());
        (metric.name.to_owned(), labels.collect())
    });
    let agent = Metrics::default();
    agent.update(&Ledger::default(), true);
    let lines = textfile::parse(&agent.text()).expect("samples");
    let of_agent = lines.into_iter().map(|(name, labels, _)| (name, labels.into_keys().collect()));
    own.chain(of_agent).collect()
}

fn rules() -> Vec<Value> {
    let document: Value = serde_saphyr::from_str(&read(&format!("{FOLDER}/rules.yaml"))).unwrap();
    assert_eq!(
        (&document["apiVersion"], &document["kind"]),
        (&json!("monitoring.coreos.com/v1"), &json!("PrometheusRule"))
    );
    let groups = document["spec"]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&read(&format!("{FOLDER}/dashboard.json"))).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Texts of the only group of an expression.
fn all<'a>(pattern: &str, of: &'a str) -> Vec<&'a str> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(of).map(|found| found.get(1).unwrap().as_str()).collect()
}

/// A query: names and values that it has and the programs lack, and the labels of its result.
fn examine(query: &str) -> (Vec<String>, BTreeSet<String>) {
    let exported = exported();
    let page = read("docs/reference/metrics.md");
    let unquoted = Regex::new(r#""[^"]*"|\[\w+\]"#).unwrap().replace_all(query, "").into_owned();
    let names: Vec<&str> = all(r"\b([A-Za-z_:][\w:]*)", &unquoted);
    let used: Vec<&BTreeSet<String>> = names.iter().filter_map(|name| exported.get(*name)).collect();
    let mut labels: BTreeSet<String> = used.iter().copied().flatten().cloned().collect();
    labels.extend(OF_TARGET.map(str::to_owned));
    let is_known = |name: &str| exported.contains_key(name) || labels.contains(name) || LANGUAGE.contains(&name);
    let mut wrong: Vec<String> = names.iter().filter(|name| !is_known(name)).map(|name| (*name).to_owned()).collect();
    if used.is_empty() {
        wrong.push(format!("no metric: {query}"));
    }
    for value in all(r#""([^"]*)""#, query).into_iter().flat_map(|value| value.split('|')) {
        if !value.starts_with('$') && !page.contains(&format!("`{value}`")) {
            wrong.push(value.to_owned());
        }
    }
    let kept = all(r"\bby \(([^)]*)\)", query);
    let kept: BTreeSet<String> = kept.iter().flat_map(|list| list.split(", ")).map(str::to_owned).collect();
    (wrong, if kept.is_empty() { labels } else { kept })
}

#[test]
fn finds_names_that_no_program_exports() {
    let wrong = |query: &str| examine(query).0;
    assert!(wrong("max by (fleet) (nodecfg_nodes{state=\"failed\"}) > 0").is_empty());
    assert_eq!(wrong("sum(nodecfg_nodes_total{state=\"failed\"})")[0], "nodecfg_nodes_total");
    assert_eq!(wrong("sum by (node) (nodecfg_nodes)"), ["node"]);
    assert_eq!(wrong("nodecfg_nodes{state=~\"failed|broken\"}"), ["broken"]);
    assert_eq!(wrong("nodecfg_nodes_draining{pool=\"$pool\"}"), ["pool"], "a label of another metric");
    assert_eq!(
        wrong("increase(nodecfg_agent_rollbacks[1h])")[0],
        "nodecfg_agent_rollbacks",
        "a counter ends in _total"
    );
    assert_eq!(wrong("time() > 3"), ["no metric: time() > 3"]);
}

#[test]
fn rules_use_exported_metrics_and_labels() {
    let mut used = String::new();
    for rule in rules() {
        let alert = text(&rule["alert"]);
        let (wrong, labels) = examine(text(&rule["expr"]));
        assert!(wrong.is_empty(), "{alert}: {wrong:?}");
        used.push_str(text(&rule["expr"]));
        assert!(["critical", "warning"].contains(&text(&rule["labels"]["severity"])), "{alert}");
        let annotations = rule["annotations"].as_object().unwrap();
        assert!(annotations.keys().eq(["summary", "description"]), "{alert}");
        for annotation in annotations.values().map(text) {
            for label in all(r"\$labels\.(\w+)", annotation) {
                assert!(labels.contains(label), "{alert}: its alerts have no label {label}");
            }
        }
        assert!(text(&rule["annotations"]["description"]).starts_with("First "), "{alert}: the first step comes first");
    }
    for metric in [metrics::LAST_SUCCESS, metrics::EXIT_CODE, metrics::DRIFTED, metrics::MARKED, metrics::NODE_FAILURES]
    {
        assert!(used.contains(metric.name), "no alert uses {}", metric.name);
    }
}

#[test]
fn documentation_lists_every_alert() {
    let page = read("docs/how-to/monitor.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Nodecfg")?.split_once('`'));
    let documented: Vec<String> = rows.map(|(name, _)| format!("Nodecfg{name}")).collect();
    let alerts: Vec<String> = rules().iter().map(|rule| text(&rule["alert"]).to_owned()).collect();
    assert_eq!(documented, alerts);
    for file in fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FOLDER)).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name == "kustomization.yaml" || page.contains(&format!("`{FOLDER}/{name}`")), "{name}");
    }
}

#[test]
fn dashboard_uses_exported_metrics_and_labels() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: BTreeSet<&str> = variables.iter().map(|variable| text(&variable["name"])).collect();
    let mut queries = Vec::new();
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        queries.push((text(&variable["query"]["query"]), None));
        assert_eq!(variable["query"]["query"], variable["definition"]);
    }
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        queries.push((text(&target["expr"]), Some(text(&target["legendFormat"]))));
    }
    for (query, legend) in queries {
        let (wrong, labels) = examine(query);
        assert!(wrong.is_empty(), "{query}: {wrong:?}");
        for variable in all(r"\$(\w+)", query) {
            assert!(names.contains(variable), "{query}: no variable {variable}");
        }
        for label in legend.map(|legend| all(r"\{\{(\w+)\}\}", legend)).unwrap_or_default() {
            assert!(labels.contains(label), "{query}: its series have no label {label}");
        }
    }
}

#[test]
fn dashboard_is_a_valid_model() {
    let dashboard = dashboard();
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["name"] == "datasource" && variable["type"] == "datasource"));
    assert!(variables.iter().all(|variable| variable["type"] == "datasource" || variable["datasource"] == source));
    assert!(dashboard["schemaVersion"].is_u64() && dashboard["uid"].is_string() && dashboard.get("id").is_none());
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id");
        assert!(["stat", "timeseries"].contains(&text(&panel["type"])), "{title}");
        assert_eq!(panel["datasource"], source, "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}: Grafana has 24 columns");
        let own = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        own.for_each(|cell| assert!(cells.insert(cell), "{title} covers another panel"));
        let targets = panel["targets"].as_array().unwrap();
        let references: BTreeSet<&str> = targets.iter().map(|target| text(&target["refId"])).collect();
        assert!(!targets.is_empty() && references.len() == targets.len(), "{title}");
        assert!(targets.iter().all(|target| target["datasource"] == source), "{title}");
    }
}

#[test]
fn health_check_names_conditions_of_the_agent() {
    let code = read(&format!("{FOLDER}/argo-cd-health.lua"));
    let named: BTreeSet<&str> = all(r#"conditions\["(\w+)"\]"#, &code).into_iter().collect();
    assert_eq!(named, BTreeSet::from([READY, RECONCILING, STALLED]));
    let verdicts: BTreeSet<&str> = all(r#"(?:status = |health\()"(\w+)""#, &code).into_iter().collect();
    assert_eq!(verdicts, BTreeSet::from(["Degraded", "Healthy", "Progressing"]));
    let definition = definition();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let status = definition.pointer(schema).unwrap();
    assert!(status.get("observedGeneration").is_some() && status.get("conditions").is_some(), "{status}");
    let [group, kind] = ["/spec/group", "/spec/names/kind"].map(|pointer| text(definition.pointer(pointer).unwrap()));
    let key = format!("resource.customizations.health.{group}_{kind}");
    assert!(read("docs/how-to/monitor.md").contains(&format!("`{key}`")), "{key}");
}
