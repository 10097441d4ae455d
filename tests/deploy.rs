//! The manifests under deploy/: their roles are those of `nodecfg install` and of docs/security.md, every field is one that
//! Kubernetes knows, kustomize builds them, and the pod may do no more than it must.
//!
//! `UPDATE_DOCS=always cargo test --test deploy` writes the roles anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use nodecfg::{install, report};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").filter(|text| text.lines().any(|line| !line.starts_with('#')));
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}\n{document}")))
        .collect()
}

fn yaml(objects: &[Value]) -> String {
    let of = |object: &Value| {
        let mut bytes = Vec::new();
        report::yaml(&mut bytes, object).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    objects.iter().map(of).collect::<Vec<_>>().join("---\n")
}

#[test]
fn the_roles_are_those_that_nodecfg_installs() {
    for (path, objects) in [
        ("deploy/cron/rbac.yaml", install::reconciler()),
        ("deploy/cron-node/rbac.yaml", install::reconciler_of_nodes()),
    ] {
        let made = format!("# Made by `UPDATE_DOCS=always cargo test --test deploy`.\n{}", yaml(&objects));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(root().join(path), &made).unwrap();
        }
        assert!(read(path) == made, "{path} is out of date: UPDATE_DOCS=always cargo test --test deploy");
        assert_eq!(documents(&made), objects, "{path}");
    }
}

/// What roles allow: rules with the namespace that they are for, sorted.
fn allowed(objects: &[Value]) -> Vec<String> {
    let of_role = |role: &Value| {
        let namespace = role["metadata"]["namespace"].clone();
        let rules = role["rules"].as_array().unwrap().clone();
        rules.into_iter().map(move |rule| {
            let part = |name: &str| rule[name].to_string();
            let parts = ["apiGroups", "resources", "resourceNames", "verbs"].map(part);
            format!("{namespace} {}", parts.join(" "))
        })
    };
    let roles = objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")));
    let mut allowed: Vec<String> = roles.flat_map(of_role).collect();
    allowed.sort();
    allowed
}

#[test]
fn the_documentation_asks_for_the_same_rights() {
    let page = read("docs/security.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let roles: Vec<Value> =
        blocks.filter(|block| block.contains("rbac.authorization.k8s.io")).flat_map(documents).collect();
    assert_eq!(allowed(&roles), allowed(&install::reconciler_of_nodes()));
}

/// Reads a value as Kubernetes' own type and writes it again: what the type does not know is lost on the way.
fn survives<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    let again = serde_json::to_value(&typed).unwrap();
    assert_eq!(&again, object, "a field that Kubernetes does not know, or a value of another type");
}

fn assert_known(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "CronJob" => survives::<CronJob>(object),
        "Namespace" => survives::<Namespace>(object),
        "ServiceAccount" => survives::<ServiceAccount>(object),
        "ClusterRole" => survives::<ClusterRole>(object),
        "ClusterRoleBinding" => survives::<ClusterRoleBinding>(object),
        "Role" => survives::<Role>(object),
        "RoleBinding" => survives::<RoleBinding>(object),
        kind => panic!("{kind}"),
    }
}

/// The CronJob as it lies in the tree.
fn cron_job() -> Value {
    documents(&read("deploy/cron/base/cronjob.yaml")).pop().unwrap()
}

#[test]
fn every_field_is_one_of_kubernetes() {
    for path in ["deploy/cron/base/namespace.yaml", "deploy/cron/base/cronjob.yaml", "deploy/cron/rbac.yaml"] {
        documents(&read(path)).iter().for_each(assert_known);
    }
    documents(&read("deploy/cron-node/rbac.yaml")).iter().for_each(assert_known);
    // That the check can fail.
    let mut wrong = cron_job();
    wrong["spec"]["jobTemplate"]["spec"]["backOffLimit"] = json!(0);
    assert!(std::panic::catch_unwind(|| assert_known(&wrong)).is_err());
}

#[test]
fn the_pod_may_do_no_more_than_it_must() {
    let job = cron_job();
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    // What Pod Security Admission asks for at the level that the namespace enforces.
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
    // The user is the one that the image has; the account has a token nowhere else.
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert!(read("Dockerfile").contains(&format!("USER {user}:{user}")));
    let account = install::reconciler().into_iter().find(|object| object["kind"] == "ServiceAccount").unwrap();
    assert_eq!(account["metadata"]["name"], pod["serviceAccountName"]);
    assert_eq!(account["metadata"]["namespace"], job["metadata"]["namespace"]);
    assert_eq!(account["automountServiceAccountToken"], false);
    // What is written to can be written to.
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
fn the_command_is_one_that_nodecfg_understands() {
    let job = cron_job();
    let container = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let environment = container["env"].as_array().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // As the kubelet expands it, but for where the repository is.
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
    let said = String::from_utf8_lossy(&output.stderr);
    // Understood, and there is no repository.
    assert_eq!(output.status.code(), Some(3), "{said}");

    let of = |path: &str| {
        let text = read(path);
        text.split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .filter(|word| word.starts_with("NODECFG_"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let sources: String = walkdir::WalkDir::new(root().join("src/cli"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    for name in of("deploy/cron/base/cronjob.yaml").into_iter().chain(of("deploy/cron/ssh/ssh.yaml")) {
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is read nowhere");
    }
}

/// What kustomize makes of a folder; `None` where there is no kubectl.
fn built(folder: &Path) -> Option<Vec<Value>> {
    let output = match Command::new("kubectl").arg("kustomize").arg(folder).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: no kubectl ({error}); nothing was built");
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
fn kustomize_builds_both() {
    for (folder, roles) in
        [("deploy/cron", install::reconciler()), ("deploy/cron-node", install::reconciler_of_nodes())]
    {
        let Some(objects) = built(&root().join(folder)) else { return };
        objects.iter().for_each(assert_known);
        let mut expected = names(&roles);
        expected.extend(["CronJob nodecfg-system nodecfg-sync".to_owned(), "Namespace - nodecfg-system".to_owned()]);
        expected.sort();
        assert_eq!(names(&objects), expected, "{folder}");
        assert!(objects.contains(&cron_job()), "kustomize changed the CronJob");
    }
}

/// The overlay that the documentation shows, built as it stands there.
#[test]
fn the_overlay_of_the_documentation_builds() {
    let page = read("docs/cron.md");
    let overlay = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("kind: Kustomization"))
        .expect("an overlay");
    let folder = tempfile::tempdir().unwrap();
    for entry in walkdir::WalkDir::new(root().join("deploy")) {
        let entry = entry.unwrap();
        let to = folder.path().join("nodecfg/deploy").join(entry.path().strip_prefix(root().join("deploy")).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
    let cluster = folder.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    fs::write(cluster.join("kustomization.yaml"), overlay).unwrap();
    let Some(objects) = built(&cluster) else { return };
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
    // Of the component, and of the base.
    assert_eq!(value("NODECFG_SSH_KEY_FILE"), "/etc/nodecfg/git/ssh-privatekey");
    assert_eq!(value("NODECFG_CACHE_DIR"), "/var/cache/nodecfg");
    assert_eq!(container["volumeMounts"].as_array().unwrap().len(), 3);
    assert!(container["image"].as_str().unwrap().starts_with("registry.example.com/"));
}
