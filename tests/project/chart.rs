//! The Helm chart: its templates are made from the objects of `nodecfg install`, and render to these objects.
//!
//! `UPDATE_DOCS=always cargo test --test project chart` makes the templates again. Values that change only texts stand in the
//! objects as words, which become expressions of Helm. For values that change more, each object is made for every
//! combination, and the template has one text for each condition.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_install::{Agent, DaemonSet, Host, Installation, Join};
use serde_json::{Value, json};

use crate::deploy::{documents, yaml};

const CHART: &str = "deploy/chart";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Words of the objects, and the expressions that replace them, in this order.
const WORDS: [(&str, &str); 12] = [
    // At the end of a name.
    ("chart-suffix", r#"{{ include "nodecfg.suffix" . }}"#),
    ("chart-namespace", "{{ .Release.Namespace }}"),
    ("chart-agents", "{{ .Values.agent.namespace }}"),
    ("registry.example/chart-image:1", "{{ .Values.agent.image }}"),
    (",\"chart-writer\"", r#"{{ range .Values.configMapWriters }},"{{ . }}"{{ end }}"#),
    ("/chart/kubelet/config.yaml", "{{ .Values.kubelet.config }}"),
    ("/chart/kubelet", "{{ dir .Values.kubelet.config }}"),
    ("/chart/drop-ins", "{{ .Values.kubelet.configDir }}"),
    ("/chart/root", "{{ .Values.kubelet.rootDir }}"),
    ("192.0.2.1:9999", "{{ .Values.agent.listen }}"),
    ("192.0.2.1", r#"{{ include "nodecfg.probe" . }}"#),
    ("9999", r#"{{ (split ":" .Values.agent.listen)._1 }}"#),
];
/// The words that need lines of their own, or a name.
const POINTERS: &str = "  - nodecfg-pool-chart-fleet-chart-pool\n";
const POINTERS_OF_VALUES: &str =
    "{{- range .Values.boot | sortAlpha }}\n  - nodecfg-pool-{{ replace \"/\" \"-\" . }}\n{{- end }}\n";
const FLEET: (&str, &str) = ("chart-fleet", "{{ .Values.agent.joinFleet }}");

/// What changes more than texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Variant {
    kind: &'static str,
    joins: bool,
    drop_ins: bool,
}

fn variants() -> Vec<Variant> {
    let kinds = ["none", "systemd", "daemonset"];
    let of = |kind| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(joins, drop_ins)| Variant {
            kind,
            joins,
            drop_ins,
        })
    };
    kinds.into_iter().flat_map(of).filter(|variant| !(variant.joins && variant.kind == "none")).collect()
}

fn namespace(name: &str) -> NamespaceName {
    NamespaceName::new(name).unwrap()
}

fn fleet(name: &str) -> FleetName {
    FleetName::new(name).unwrap()
}

/// The objects of a variant, with the words.
fn objects(variant: Variant) -> Vec<Value> {
    let in_namespace = namespace("chart-namespace");
    let join = Join { fleet: fleet(FLEET.0), namespace: in_namespace.clone() };
    let host = Host {
        kubelet_config: "/chart/kubelet/config.yaml".to_owned(),
        kubelet_config_dir: variant.drop_ins.then(|| "/chart/drop-ins".to_owned()),
        kubelet_root: "/chart/root".to_owned(),
        listen: "192.0.2.1:9999".parse().unwrap(),
        join: variant.joins.then_some(join),
    };
    let agent = match variant.kind {
        "daemonset" => Some(Agent::DaemonSet(DaemonSet {
            namespace: namespace("chart-agents"),
            image: "registry.example/chart-image:1".to_owned(),
            host,
        })),
        "systemd" => Some(Agent::Systemd),
        _ => None,
    };
    nodecfg_install::objects(&Installation {
        namespace: in_namespace,
        config_map_writers: vec!["chart-writer".to_owned()],
        agent,
        joins: variant.joins,
        boot: vec![(fleet(FLEET.0), PoolName::new("chart-pool").unwrap())],
    })
}

/// A condition in the language of Helm, and the variants for which it holds. The first that fits is the shortest.
fn conditions() -> Vec<(String, BTreeSet<Variant>)> {
    type Part = (&'static str, fn(&Variant) -> bool);
    let kinds: [Part; 4] = [
        ("", |_| true),
        (r#"(ne .Values.agent.kind "none")"#, |variant| variant.kind != "none"),
        (r#"(eq .Values.agent.kind "daemonset")"#, |variant| variant.kind == "daemonset"),
        (r#"(eq .Values.agent.kind "systemd")"#, |variant| variant.kind == "systemd"),
    ];
    let joins: [Part; 3] = [
        ("", |_| true),
        (".Values.agent.joinFleet", |variant| variant.joins),
        ("(not .Values.agent.joinFleet)", |variant| !variant.joins),
    ];
    let drop_ins: [Part; 3] = [
        ("", |_| true),
        (".Values.kubelet.configDir", |variant| variant.drop_ins),
        ("(not .Values.kubelet.configDir)", |variant| !variant.drop_ins),
    ];
    let mut all = Vec::new();
    for kind in kinds {
        for join in joins {
            for drop_in in drop_ins {
                let parts = [kind, join, drop_in];
                let words: Vec<&str> = parts.iter().map(|part| part.0).filter(|word| !word.is_empty()).collect();
                let text = match words.as_slice() {
                    [] | [_] => words.concat().trim_matches(['(', ')']).to_owned(),
                    more => format!("and {}", more.join(" ")),
                };
                let holds = variants().into_iter().filter(|variant| parts.iter().all(|part| part.1(variant))).collect();
                all.push((text, holds));
            }
        }
    }
    all.sort_by_key(|(text, _)| text.matches(".Values").count());
    all
}

/// Text of an object in a template.
fn template(object: &Value) -> String {
    let mut object = object.clone();
    // The chart never removes the definition, and with it every assignment.
    if object["kind"] == "CustomResourceDefinition" {
        object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    let is_policy = object["kind"].as_str().unwrap().starts_with("ValidatingAdmission");
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    if let Some(start) = name.strip_suffix("-chart-namespace").filter(|_| !is_policy) {
        object["metadata"]["name"] = format!("{start}chart-suffix").into();
    }
    let mut text = yaml(std::slice::from_ref(&object));
    assert!(!text.contains("{{"), "{text}");
    text = text.replace(POINTERS, POINTERS_OF_VALUES);
    for (word, expression) in WORDS {
        text = text.replace(word, expression);
    }
    let text = text.replace(FLEET.0, FLEET.1);
    assert!(!text.contains("chart-") && !text.contains("/chart/"), "{text}");
    text
}

/// File of the chart with an object.
fn file_of(object: &Value) -> &str {
    match object["kind"].as_str().unwrap() {
        "CustomResourceDefinition" => "definition",
        "Namespace" => "namespace",
        kind if kind.starts_with("ValidatingAdmission") => "policies",
        _ => object["metadata"]["labels"]["app.kubernetes.io/component"].as_str().unwrap(),
    }
}

/// Condition of an object that follows from the object itself.
fn own_condition(object: &Value) -> Option<&'static str> {
    let kind = object["kind"].as_str().unwrap();
    if kind.starts_with("ValidatingAdmission") || nodecfg_install::needs_policies(object) {
        return Some(r#"include "nodecfg.hasPolicies" ."#);
    }
    match file_of(object) {
        "boot" => Some(".Values.boot"),
        "namespace" => Some("ne .Values.agent.namespace .Release.Namespace"),
        _ => None,
    }
}

fn key(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    [text("/kind"), text("/metadata/namespace"), text("/metadata/name")].join(" ")
}

/// The files of the chart that are made.
fn made() -> BTreeMap<String, String> {
    let mut order: Vec<String> = Vec::new();
    // The object of each variant.
    let mut found: BTreeMap<String, BTreeMap<Variant, Value>> = BTreeMap::new();
    for variant in variants() {
        for object in objects(variant) {
            // Helm creates the namespace of the release.
            if key(&object) == "Namespace  chart-namespace" {
                continue;
            }
            if !order.contains(&key(&object)) {
                order.push(key(&object));
            }
            found.entry(key(&object)).or_default().insert(variant, object);
        }
    }
    let conditions = conditions();
    // Conditions and texts of each file.
    let mut blocks: BTreeMap<String, Vec<(Vec<String>, String)>> = BTreeMap::new();
    for key in order {
        let mut texts: Vec<(String, BTreeSet<Variant>)> = Vec::new();
        for (variant, object) in &found[&key] {
            let text = template(object);
            match texts.iter_mut().find(|(other, _)| *other == text) {
                Some((_, holds)) => drop(holds.insert(*variant)),
                None => texts.push((text, BTreeSet::from([*variant]))),
            }
        }
        let first = found[&key].values().next().unwrap();
        let file = blocks.entry(format!("templates/{}.yaml", file_of(first))).or_default();
        for (text, holds) in texts {
            let fits = conditions.iter().find(|(_, other)| *other == holds);
            let (condition, _) = fits.unwrap_or_else(|| panic!("{key}: no condition for {holds:?}"));
            let own = own_condition(first).map(str::to_owned);
            let all: Vec<String> =
                own.into_iter().chain(Some(condition.clone()).filter(|text| !text.is_empty())).collect();
            match file.last_mut() {
                Some((before, texts)) if *before == all => write!(texts, "---\n{text}").unwrap(),
                _ => file.push((all, format!("---\n{text}"))),
            }
        }
    }
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (name, blocks) in blocks {
        let file = files.entry(name).or_default();
        for (conditions, text) in blocks {
            conditions.iter().for_each(|condition| writeln!(file, "{{{{- if {condition} }}}}").unwrap());
            file.push_str(&text);
            conditions.iter().for_each(|_| file.push_str("{{- end }}\n"));
        }
    }
    for (right, objects) in [
        ("drainer", nodecfg_install::drainer()),
        ("drainConditions", nodecfg_install::drain_conditions()),
        ("medik8sLease", nodecfg_install::medik8s_lease()),
        ("poolPointers", nodecfg_install::pool_pointers()),
    ] {
        let file = files.entry("templates/rights.yaml".to_owned()).or_default();
        let texts: Vec<String> = objects.iter().map(|object| yaml(std::slice::from_ref(object))).collect();
        let text = texts.join("---\n").replace("nodecfg-system", "{{ .Release.Namespace }}");
        write!(file, "{{{{- if .Values.rights.{right} }}}}\n---\n{text}{{{{- end }}}}\n").unwrap();
    }
    let made_by = "{{/* Made by `UPDATE_DOCS=always cargo test --test project chart`. */}}\n";
    for text in files.values_mut() {
        *text = format!("{made_by}{text}");
    }
    let check = files.get_mut("templates/reconciler.yaml").unwrap();
    *check = check.replacen(made_by, &format!("{made_by}{{{{- include \"nodecfg.check\" . }}}}\n"), 1);
    let version = env!("CARGO_PKG_VERSION");
    files.insert(
        "Chart.yaml".to_owned(),
        format!(
            "# Made by `UPDATE_DOCS=always cargo test --test project chart`.\napiVersion: v2\nname: nodecfg\ndescription: The \
             objects of `nodecfg install`, NodeConfigs, roles and agents for kubelet configuration from git.\ntype: \
             application\nversion: {version}\nappVersion: {version:?}\nkubeVersion: \">=1.25.0-0\"\n"
        ),
    );
    files
}

#[test]
fn chart_is_made_from_the_objects_of_install() {
    let folder = root().join(CHART);
    let made = made();
    for (path, text) in &made {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(folder.join(path), text).unwrap();
        }
        let there = fs::read_to_string(folder.join(path)).unwrap_or_default();
        assert!(there == *text, "{path} is out of date: UPDATE_DOCS=always cargo test --test project chart");
    }
    let templates = fs::read_dir(folder.join("templates")).unwrap().map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = templates.map(|name| format!("templates/{}", name.into_string().unwrap())).collect();
    let known = made.into_keys().filter(|path| path.starts_with("templates/"));
    assert_eq!(there, known.chain(["templates/_values.tpl".to_owned()]).collect());
}

/// Runs helm. `None` without helm on the PATH.
fn helm(arguments: &[&str], values: &Value) -> Option<Result<String, String>> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("values.json"), values.to_string()).unwrap();
    let mut command = Command::new("helm");
    command.args(arguments).arg(root().join(CHART)).arg("--values").arg(home.path().join("values.json"));
    let run = match command.env("HOME", home.path()).output() {
        Ok(run) => run,
        Err(_) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "skipped: no helm on the PATH: the chart is not rendered");
            return None;
        }
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(if run.status.success() { Ok(text(run.stdout)) } else { Err(text(run.stderr)) })
}

fn rendered(namespace: &str, values: &Value, version: &str) -> Option<Result<Vec<Value>, String>> {
    let arguments = ["template", "nodecfg", "--namespace", namespace, "--kube-version", version];
    Some(helm(&arguments, values)?.map(|text| documents(&text)))
}

/// Objects by key, without what only Helm needs.
fn by_key(objects: Vec<Value>, release: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in objects {
        if object["kind"] == "CustomResourceDefinition" {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        if key(&object) != format!("Namespace  {release}") {
            let before = all.insert(key(&object), object);
            assert!(before.is_none(), "twice: {before:?}");
        }
    }
    all
}

#[test]
fn chart_renders_to_the_objects_of_install() {
    let host = |joins: Option<&str>, release: &str, config_dir: Option<&str>, listen: &str| Host {
        kubelet_config: "/etc/kubelet/config.yaml".to_owned(),
        kubelet_config_dir: config_dir.map(str::to_owned),
        kubelet_root: "/data/kubelet".to_owned(),
        listen: listen.parse().unwrap(),
        join: joins.map(|name| Join { fleet: fleet(name), namespace: namespace(release) }),
    };
    let kubelet = |config_dir: &str| json!({"config": "/etc/kubelet/config.yaml", "configDir": config_dir, "rootDir": "/data/kubelet"});
    let pods = |agents: &str, host: Host| {
        let image = "registry.example/a/agent@sha256:0123".to_owned();
        Some(Agent::DaemonSet(DaemonSet { namespace: namespace(agents), image, host }))
    };
    let image = "registry.example/a/agent@sha256:0123";
    type Case = (&'static str, Value, Option<Agent>, bool, Vec<(&'static str, &'static str)>, Vec<&'static str>);
    let cases: Vec<Case> = vec![
        ("nodecfg-system", json!({}), None, false, vec![], vec![]),
        (
            "team-b",
            json!({"configMapWriters": ["ci", "system:serviceaccount:ci:bot"]}),
            None,
            false,
            vec![],
            vec!["ci", "system:serviceaccount:ci:bot"],
        ),
        ("nodecfg-system", json!({"agent": {"kind": "systemd"}}), Some(Agent::Systemd), false, vec![], vec![]),
        (
            "nodecfg-system",
            json!({"agent": {"kind": "systemd", "joinFleet": "prod"}, "boot": ["prod/gpu", "prod/cpu"]}),
            Some(Agent::Systemd),
            true,
            vec![("prod", "gpu"), ("prod", "cpu")],
            vec![],
        ),
        (
            "nodecfg-system",
            json!({"agent": {"kind": "daemonset", "image": image}, "kubelet": kubelet("")}),
            pods("nodecfg-agent", host(None, "nodecfg-system", None, "127.0.0.1:9348")),
            false,
            vec![],
            vec![],
        ),
        (
            "team-b",
            json!({
                "agent": {"kind": "daemonset", "image": image, "joinFleet": "prod", "namespace": "agents", "listen": "0.0.0.0:9400"},
                "kubelet": kubelet("/etc/kubelet.d"),
            }),
            pods("agents", host(Some("prod"), "team-b", Some("/etc/kubelet.d"), "0.0.0.0:9400")),
            true,
            vec![],
            vec![],
        ),
    ];
    for (release, values, agent, joins, boot, writers) in cases {
        let Some(rendered) = rendered(release, &values, "1.36.0") else { return };
        let rendered = by_key(rendered.unwrap_or_else(|error| panic!("{values}: {error}")), release);
        let boot = boot.into_iter().map(|(of, pool)| (fleet(of), PoolName::new(pool).unwrap())).collect();
        let config_map_writers = writers.into_iter().map(str::to_owned).collect();
        let installation = Installation { namespace: namespace(release), config_map_writers, agent, joins, boot };
        let wanted = by_key(nodecfg_install::objects(&installation), release);
        assert_eq!(rendered.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{values}");
        for (key, object) in wanted {
            assert_eq!(rendered[&key], object, "{values}: {key}");
        }
    }
}

/// As `nodecfg install` does.
#[test]
fn chart_without_admission_policies_has_no_rights_that_need_them() {
    let values = json!({"agent": {"kind": "daemonset", "image": "a:1"}});
    let Some(rendered) = rendered("nodecfg-system", &values, "1.29.0") else { return };
    for object in rendered.unwrap() {
        let kind = object["kind"].as_str().unwrap();
        assert!(!kind.starts_with("ValidatingAdmission") && !nodecfg_install::needs_policies(&object), "{object}");
    }
}

#[test]
fn optional_rights_are_the_components_of_deploy() {
    let rights = ["drainer", "drainConditions", "medik8sLease", "poolPointers"];
    let with = |rights: &[&str]| {
        let values: BTreeMap<&str, bool> = rights.iter().map(|right| (*right, true)).collect();
        let rendered = rendered("nodecfg-system", &json!({"rights": values}), "1.36.0")?;
        Some(by_key(rendered.unwrap(), "nodecfg-system"))
    };
    let (Some(plain), Some(all)) = (with(&[]), with(&rights)) else { return };
    let added: Vec<Value> =
        all.into_iter().filter(|(key, _)| !plain.contains_key(key)).map(|(_, object)| object).collect();
    let wanted = [
        nodecfg_install::drainer(),
        nodecfg_install::drain_conditions(),
        nodecfg_install::medik8s_lease(),
        nodecfg_install::pool_pointers(),
    ];
    assert_eq!(by_key(added, "nodecfg-system"), by_key(wanted.concat(), "nodecfg-system"));
}

#[test]
fn chart_refuses_values_that_do_not_fit() {
    let cases = [
        (json!({"agent": {"kind": "daemonset"}}), "1.36.0", "agent.image: name the image of the agents"),
        (json!({"agent": {"joinFleet": "prod"}}), "1.36.0", "agent.joinFleet: nodes join only with agents"),
        (json!({"boot": ["prod/gpu"]}), "1.29.0", "these rights need admission policies"),
        (json!({"kubelet": {"configDir": "/var/lib/kubelet"}}), "1.36.0", "kubelet.configDir: the folder"),
        (json!({"kubelet": {"config": "/a/../b"}}), "1.36.0", "kubelet.config"),
        (json!({"configMapWriters": ["a\"b"]}), "1.36.0", "configMapWriters"),
        (json!({"agent": {"kin": "systemd"}}), "1.36.0", "kin"),
    ];
    for (values, version, words) in cases {
        match rendered("nodecfg-system", &values, version) {
            None => return,
            Some(Ok(_)) => panic!("{values}: accepted"),
            Some(Err(error)) => assert!(error.contains(words), "{values}: {error}"),
        }
    }
    let values = json!({"agent": {"kind": "daemonset", "image": "a:1"}});
    helm(&["lint", "--strict"], &values).unwrap().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn schema_knows_every_value() {
    let read = |path: &str| fs::read_to_string(Path::new(&root()).join(CHART).join(path)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    assert!(jsonschema::is_valid(&schema, &values));
    let keys =
        |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>()).unwrap_or_default();
    for (name, value) in values.as_object().unwrap() {
        let known = &schema["properties"][name];
        assert!(known.is_object(), "{name}");
        assert_eq!(keys(value), keys(&known["properties"]), "{name}");
    }
}
