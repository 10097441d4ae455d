//! `UPDATE_DOCS=always cargo test --test project deploy` regenerates the roles.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use nodecfg::report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").filter(|text| text.lines().any(|line| !line.starts_with('#')));
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}\n{document}")))
        .collect()
}

pub(crate) fn yaml(objects: &[Value]) -> String {
    let of = |object: &Value| {
        let mut bytes = Vec::new();
        report::yaml(&mut bytes, object).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    objects.iter().map(of).collect::<Vec<_>>().join("---\n")
}

/// Folders of deploy/ with roles, and the roles of each.
fn roles() -> [(&'static str, Vec<Value>); 13] {
    [
        ("cron", nodecfg_install::reconciler()),
        ("cron-node", nodecfg_install::reconciler_of_nodes()),
        ("saved-plans", nodecfg_install::saved_plans()),
        ("drainer", nodecfg_install::drainer()),
        ("drain-conditions", nodecfg_install::drain_conditions()),
        ("medik8s-lease", nodecfg_install::medik8s_lease()),
        ("pool-pointers", nodecfg_install::pool_pointers()),
        ("forecaster", nodecfg_install::forecaster()),
        ("reader", nodecfg_install::reader()),
        ("reader-node", nodecfg_install::reader_of_nodes()),
        ("pruner", nodecfg_install::pruner()),
        ("pruner-node", nodecfg_install::pruner_of_nodes()),
        ("capture", nodecfg_install::capture()),
    ]
}

#[test]
fn roles_equal_installed_roles() {
    for (folder, objects) in roles() {
        let path = &format!("deploy/{folder}/rbac.yaml");
        let made = format!("# Made by `UPDATE_DOCS=always cargo test --test project deploy`.\n{}", yaml(&objects));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(root().join(path), &made).unwrap();
        }
        assert!(read(path) == made, "{path} is out of date: UPDATE_DOCS=always cargo test --test project deploy");
        assert_eq!(documents(&made), objects, "{path}");
    }
    let folders = fs::read_dir(root().join("deploy")).unwrap().map(|entry| entry.unwrap().file_name());
    // chart.rs and monitoring.rs test the folders without roles.
    let known: BTreeSet<String> =
        roles().iter().map(|(folder, _)| *folder).chain(["chart", "monitoring"]).map(str::to_owned).collect();
    let found: BTreeSet<String> = folders.map(|folder| folder.into_string().unwrap()).collect();
    assert_eq!(found, known, "folders of deploy/");
}

/// Folder, resource and verb.
type Right = (String, String, String);

fn granted() -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut granted = BTreeSet::new();
    for (folder, objects) in roles() {
        for rule in objects.iter().filter_map(|object| object["rules"].as_array()).flatten() {
            for resource in texts(&rule["resources"]) {
                let rights = texts(&rule["verbs"]).into_iter().map(|verb| (folder.to_owned(), resource.clone(), verb));
                granted.extend(rights);
            }
        }
    }
    granted
}

/// Texts between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Rights in the table of docs/reference/permissions.md, whose columns are resource and verbs, folders, and reason.
fn documented() -> BTreeSet<Right> {
    let page = read("docs/reference/permissions.md");
    let table = page.split("| right | granted by | why |\n").nth(1).expect("the table of rights");
    let mut documented = BTreeSet::new();
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells.len() == 3 && !cells[2].is_empty(), "{row}");
        let (resource, verbs) = cells[0].strip_prefix('`').unwrap().split_once("` ").unwrap();
        for folder in quoted(cells[1]) {
            for verb in verbs.split(", ") {
                let right = (folder.clone(), resource.to_owned(), verb.to_owned());
                assert!(documented.insert(right.clone()), "twice: {right:?}");
            }
        }
    }
    documented
}

#[test]
fn documentation_has_reason_for_every_right() {
    let (granted, documented) = (granted(), documented());
    assert!(granted.len() >= 38, "{granted:?}");
    let without_reason: Vec<&Right> = granted.difference(&documented).collect();
    let without_right: Vec<&Right> = documented.difference(&granted).collect();
    assert!(
        without_reason.is_empty() && without_right.is_empty(),
        "docs/reference/permissions.md: granted without a reason: {without_reason:?}; not granted: {without_right:?}"
    );
}

/// Checks that the Kubernetes type keeps every field of the object.
fn assert_round_trip<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    let again = serde_json::to_value(&typed).unwrap();
    assert_eq!(&again, object, "a field that Kubernetes does not know, or a value of another type");
}

fn assert_known(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "CronJob" => assert_round_trip::<CronJob>(object),
        "Namespace" => assert_round_trip::<Namespace>(object),
        "ServiceAccount" => assert_round_trip::<ServiceAccount>(object),
        "ClusterRole" => assert_round_trip::<ClusterRole>(object),
        "ClusterRoleBinding" => assert_round_trip::<ClusterRoleBinding>(object),
        "Role" => assert_round_trip::<Role>(object),
        "RoleBinding" => assert_round_trip::<RoleBinding>(object),
        kind => panic!("{kind}"),
    }
}

/// The CronJob of deploy/.
fn cron_job() -> Value {
    documents(&read("deploy/cron/base/cronjob.yaml")).pop().unwrap()
}

#[test]
fn kubernetes_knows_every_field() {
    assert_known(&cron_job());
    for (folder, _) in roles() {
        documents(&read(&format!("deploy/{folder}/rbac.yaml"))).iter().for_each(assert_known);
    }
    // Proves that the check can fail.
    let mut wrong = cron_job();
    wrong["spec"]["jobTemplate"]["spec"]["backOffLimit"] = json!(0);
    assert!(std::panic::catch_unwind(|| assert_known(&wrong)).is_err());
}

#[test]
fn pod_is_restricted() {
    let job = cron_job();
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    // Requirements of Pod Security Admission at the level `restricted`.
    for (pointer, value) in [
        ("/securityContext/runAsNonRoot", json!(true)),
        ("/securityContext/seccompProfile/type", json!("RuntimeDefault")),
        ("/containers/0/securityContext/allowPrivilegeEscalation", json!(false)),
        ("/containers/0/securityContext/readOnlyRootFilesystem", json!(true)),
        ("/containers/0/securityContext/capabilities/drop", json!(["ALL"])),
        ("/restartPolicy", json!("Never")),
    ] {
        assert_eq!(pod.pointer(pointer), Some(&value), "{pointer}");
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod.get(field).is_none(), "{field}");
    }
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    assert_eq!(pod["containers"][0]["securityContext"].get("privileged"), None);
    let spec = &job["spec"];
    assert_eq!(
        (&spec["concurrencyPolicy"], &spec["jobTemplate"]["spec"]["backoffLimit"]),
        (&json!("Forbid"), &json!(0))
    );
    // The user equals that of the image. The ServiceAccount mounts its token in no other pod.
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert!(read("Dockerfile").contains(&format!("USER {user}:{user}")));
    let account = nodecfg_install::reconciler().into_iter().find(|object| object["kind"] == "ServiceAccount").unwrap();
    assert_eq!(account["metadata"]["name"], pod["serviceAccountName"]);
    assert_eq!(account["metadata"]["namespace"], job["metadata"]["namespace"]);
    assert_eq!(account["automountServiceAccountToken"], false);
    // Every written path is on a writable volume.
    let mounts: Vec<&str> = pod["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    let environment = pod["containers"][0]["env"].as_array().unwrap();
    let cache = environment.iter().find(|variable| variable["name"] == "NODECFG_CACHE_DIR").unwrap();
    assert!(mounts.contains(&cache["value"].as_str().unwrap()), "{mounts:?}");
}

#[test]
fn command_of_pod_is_valid() {
    let job = cron_job();
    let container = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let environment = container["env"].as_array().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Expanded as by the kubelet, except for the path of the repository.
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
        let argument = argument.as_str().unwrap();
        if argument == "$(REPOSITORY)" { folder.path().to_str().unwrap().to_owned() } else { argument.to_owned() }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodecfg"));
    command.env_clear().args(arguments);
    for variable in
        environment.iter().filter(|variable| variable["value"].is_string() && variable["name"] != "REPOSITORY")
    {
        command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The arguments are valid; only the repository is missing.
    assert_eq!(output.status.code(), Some(3), "{stderr}");

    let of = |path: &str| {
        let text = read(path);
        text.split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .filter(|word| word.starts_with("NODECFG_"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let sources: String = walkdir::WalkDir::new(root().join("src"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    for name in of("deploy/cron/base/cronjob.yaml").into_iter().chain(of("deploy/cron/ssh/ssh.yaml")) {
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is read nowhere");
    }
}

/// Output of kustomize for a folder, or `None` without kubectl.
fn kustomized(folder: &Path) -> Option<Vec<Value>> {
    let output = match Command::new("kubectl").arg("kustomize").arg(folder).output() {
        Ok(output) => output,
        Err(error) => {
            // Written to standard error directly, because the harness hides the output of passing tests.
            let _ = writeln!(std::io::stderr(), "skipped: no kubectl ({error}): no kustomization was built");
            return None;
        }
    };
    assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    Some(documents(&String::from_utf8(output.stdout).unwrap()))
}

fn names(objects: &[Value]) -> Vec<String> {
    let text =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let mut names: Vec<String> = objects
        .iter()
        .map(|object| {
            format!(
                "{} {} {}",
                text(object, "/kind"),
                text(object, "/metadata/namespace"),
                text(object, "/metadata/name")
            )
        })
        .collect();
    names.sort();
    names
}

#[test]
fn kustomize_builds_both_bases() {
    for (folder, roles) in
        [("deploy/cron", nodecfg_install::reconciler()), ("deploy/cron-node", nodecfg_install::reconciler_of_nodes())]
    {
        let Some(objects) = kustomized(&root().join(folder)) else { return };
        objects.iter().for_each(assert_known);
        let mut expected = names(&roles);
        expected.push("CronJob nodecfg-system nodecfg-sync".to_owned());
        expected.sort();
        assert_eq!(names(&objects), expected, "{folder}");
        assert!(objects.contains(&cron_job()), "kustomize changed the CronJob");
    }
}

/// `kubectl delete -k` deletes all objects of a folder. A Namespace would be deleted with the ConfigMaps that nodes
/// use.
#[test]
fn bases_contain_no_namespace() {
    let holds_one = |text: &str| documents(text).iter().any(|object| object["kind"] == "Namespace");
    assert!(holds_one("kind: Namespace"));
    // The templates of Helm are no YAML.
    let is_base = |entry: &walkdir::DirEntry| entry.file_name() != "chart";
    for entry in walkdir::WalkDir::new(root().join("deploy")).into_iter().filter_entry(is_base) {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            assert!(!holds_one(&fs::read_to_string(entry.path()).unwrap()), "{}", entry.path().display());
        }
    }
}

#[test]
fn kustomize_builds_readers_and_pruners() {
    for (folder, roles) in [
        ("reader", nodecfg_install::reader()),
        ("reader-node", nodecfg_install::reader_of_nodes()),
        ("pruner", nodecfg_install::pruner()),
        ("pruner-node", nodecfg_install::pruner_of_nodes()),
    ] {
        let Some(objects) = kustomized(&root().join("deploy").join(folder)) else { return };
        assert_eq!(names(&objects), names(&roles), "{folder}");
    }
}

#[test]
fn kustomize_builds_monitoring() {
    let Some(objects) = kustomized(&root().join("deploy/monitoring")) else { return };
    assert_eq!(names(&objects), ["ConfigMap - nodecfg-dashboard", "PrometheusRule - nodecfg"]);
}

/// Adds the components to both bases, in their own folder, because kustomize accepts no absolute paths.
#[test]
fn kustomize_adds_rights_for_saved_plans_and_drains() {
    for (cron, roles) in
        [("cron", nodecfg_install::reconciler()), ("cron-node", nodecfg_install::reconciler_of_nodes())]
    {
        let folder = tempfile::tempdir().unwrap();
        copy_deploy(&folder.path().join("deploy"));
        let cluster = folder.path().join("cluster");
        fs::create_dir(&cluster).unwrap();
        let overlay =
            format!("resources: [../deploy/{cron}]\ncomponents: [../deploy/saved-plans, ../deploy/drainer]\n");
        fs::write(cluster.join("kustomization.yaml"), overlay).unwrap();
        let Some(objects) = kustomized(&cluster) else { return };
        let added = [nodecfg_install::saved_plans(), nodecfg_install::drainer()].concat();
        for name in names(&roles).into_iter().chain(names(&added)) {
            assert!(names(&objects).contains(&name), "{cron} lacks {name}");
        }
    }
}

#[test]
fn kustomize_adds_rights_for_forecasts() {
    for (reader, roles) in [("reader", nodecfg_install::reader()), ("reader-node", nodecfg_install::reader_of_nodes())]
    {
        let folder = tempfile::tempdir().unwrap();
        copy_deploy(&folder.path().join("deploy"));
        let cluster = folder.path().join("cluster");
        fs::create_dir(&cluster).unwrap();
        let overlay = format!("resources: [../deploy/{reader}]\ncomponents: [../deploy/forecaster]\n");
        fs::write(cluster.join("kustomization.yaml"), overlay).unwrap();
        let Some(objects) = kustomized(&cluster) else { return };
        assert_eq!(names(&objects), names(&[roles, nodecfg_install::forecaster()].concat()), "{reader}");
    }
}

/// Copies deploy/ to a new folder.
fn copy_deploy(to: &Path) {
    for entry in walkdir::WalkDir::new(root().join("deploy")) {
        let entry = entry.unwrap();
        let to = to.join(entry.path().strip_prefix(root().join("deploy")).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Builds the overlay in the documentation, verbatim.
#[test]
fn overlay_of_documentation_builds() {
    let page = read("docs/how-to/cron.md");
    let overlay = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("kind: Kustomization"))
        .expect("an overlay");
    let folder = tempfile::tempdir().unwrap();
    copy_deploy(&folder.path().join("deploy"));
    let cluster = folder.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    fs::write(cluster.join("kustomization.yaml"), overlay).unwrap();
    let Some(objects) = kustomized(&cluster) else { return };
    objects.iter().for_each(assert_known);
    let job = objects.iter().find(|object| object["kind"] == "CronJob").unwrap();
    assert_ne!(job["spec"]["schedule"], cron_job()["spec"]["schedule"]);
    let container = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let value = |name: &str| {
        let variables = container["env"].as_array().unwrap();
        let found: Vec<&Value> = variables.iter().filter(|variable| variable["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]["value"].clone()
    };
    assert!(value("REPOSITORY").as_str().unwrap().starts_with("ssh://"));
    // One from the component, the other from the base.
    assert_eq!(value("NODECFG_SSH_KEY_FILE"), "/etc/nodecfg/git/ssh-privatekey");
    assert_eq!(value("NODECFG_CACHE_DIR"), "/var/cache/nodecfg");
    assert_eq!(container["volumeMounts"].as_array().unwrap().len(), 3);
    assert!(container["image"].as_str().unwrap().starts_with("registry.example.com/"));
}

/// The API server of the sandbox, and what only an API server needs.
const SANDBOX: [&str; 3] = ["nodecfg-sandbox", "axum", "rcgen"];

/// Crates of the programs with these features.
fn crates_with(features: &[&str]) -> BTreeSet<String> {
    let tree = [
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "-p",
        "nodecfg",
        "-p",
        "nodecfg-agent",
    ];
    let output = Command::new(env!("CARGO")).args(tree).args(features).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn production_programs_contain_no_api_server() {
    let with_sandbox = crates_with(&[]);
    assert!(SANDBOX.iter().all(|name| with_sandbox.contains(*name)), "the default build has a sandbox");
    for file in ["Dockerfile", ".github/workflows/release.yml", "action/build.sh"] {
        let text = read(file);
        let builds: Vec<&str> = text
            .lines()
            .filter(|line| ["cargo build", "cargo auditable build"].iter().any(|build| line.contains(build)))
            .collect();
        let [build] = builds.as_slice() else { panic!("{file}: {builds:?}") };
        let words: Vec<&str> = build.split_whitespace().collect();
        let features = words.iter().position(|word| *word == "--features").map(|at| &words[at..=at + 1]);
        let defaults = words.iter().filter(|word| **word == "--no-default-features");
        let flags: Vec<&str> = features.into_iter().flatten().chain(defaults).copied().collect();
        let crates = crates_with(&flags);
        assert!(crates.contains("kubelet-config"), "{file}: {crates:?}");
        assert!(SANDBOX.iter().all(|name| !crates.contains(*name)), "{file}: {crates:?}");
    }
}
