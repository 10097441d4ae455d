//! Requests of components and of attackers, by impersonated users. `crates/install/src/admission_requests.json` lists them
//! with the answer of the admission policies, which only a real API server evaluates. The sandbox shows that the others
//! are well formed. All are dry runs.

use http::Request;
use serde_json::{Map, Value, json};

use crate::harness::{Cluster, ClusterSetup, until};

scenarios! {
    Agents {
        api_server_admits_what_components_need_and_nothing_else,
    }
}

const TABLE: &str = include_str!("../../crates/install/src/admission_requests.json");
/// Metadata that the API server sets.
const OF_THE_SERVER: [&str; 5] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Path of the collection of an object's kind.
fn collection(object: &Value) -> String {
    match text(&object["kind"]) {
        "NodeConfig" => "/apis/nodecfg.dev/v1alpha1/nodeconfigs".to_owned(),
        "ConfigMap" => format!("/api/v1/namespaces/{}/configmaps", text(&object["metadata"]["namespace"])),
        kind => format!("/api/v1/{}s", kind.to_lowercase()),
    }
}

/// An object as a client creates it.
fn written(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
    object
}

/// Merges patches, and keeps their nulls.
fn join(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(value)) => join(below, value),
            _ => drop(target.insert(key.clone(), value.clone())),
        }
    }
}

/// Applies a merge patch.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (_, Value::Null) => drop(target.remove(key)),
            (Some(Value::Object(below)), Value::Object(value)) => merge(below, value),
            _ => drop(target.insert(key.clone(), value.clone())),
        }
    }
}

/// A row of the table.
struct Row<'a> {
    row: &'a Value,
    /// What the client changes.
    change: Map<String, Value>,
    /// The object before the request, or the one to create.
    object: Value,
}

impl<'a> Row<'a> {
    fn of(table: &Value, row: &'a Value) -> Self {
        let mut change = Map::new();
        for part in list(&row["changes"]).map(|name| &table["objects"][text(name)]).chain([&row["change"]]) {
            join(&mut change, part.as_object().unwrap_or(&Map::new()));
        }
        let object =
            table["objects"][text(&row["old"])].as_object().or(table["objects"][text(&row["new"])].as_object());
        Self { row, change, object: Value::Object(object.unwrap().clone()) }
    }

    /// Request by this verb.
    fn request(&self, verb: &str) -> http::request::Builder {
        let Self { row, object, .. } = self;
        let mut place = object.clone();
        merge(place.as_object_mut().unwrap(), &self.change);
        let mut path = collection(&place);
        let name = text(&place["metadata"]["name"]);
        let mut query = "dryRun=All&fieldManager=nodecfg-agent".to_owned();
        let method = match verb {
            "create" | "generate-name" => "POST",
            "update" => "PUT",
            "delete" => "DELETE",
            "deletecollection" => {
                query = format!("dryRun=All&fieldSelector=metadata.name%3D{name}");
                "DELETE"
            }
            "apply" => {
                query.push_str("&force=true");
                "PATCH"
            }
            _ => "PATCH",
        };
        if !["create", "generate-name", "deletecollection"].contains(&verb) {
            path = format!("{path}/{name}");
        }
        if let Some((_, subresource)) = text(&row["on"]).split_once('/') {
            path = format!("{path}/{subresource}");
        }
        let media = match verb {
            "apply" => "application/apply-patch+yaml",
            "merge-patch" | "json-patch" | "strategic-merge-patch" => &format!("application/{verb}+json"),
            _ => "application/json",
        };
        Request::builder().method(method).uri(format!("{path}?{query}")).header("Content-Type", media)
    }

    /// Sends the request by this verb. Returns the answer, and whether a policy refused it.
    async fn send(&self, cluster: &Cluster, verb: &str, user: &Value) -> (Result<Value, (u16, String)>, bool) {
        let name = text(&self.object["metadata"]["name"]);
        loop {
            let live = match self.row["old"].is_null() {
                true => Value::Null,
                false => cluster.get(&format!("{}/{name}", collection(&self.object))).await,
            };
            let body = self.body(verb, &live).to_string().into_bytes();
            let answer = cluster.send(as_user(self.request(verb), user).body(body).unwrap()).await;
            // A simulated agent reports the status of the NodeConfig meanwhile.
            if verb == "update" && matches!(answer, Err((409, _))) {
                continue;
            }
            let by_policy = matches!(&answer, Err((403, message)) if message.contains("ValidatingAdmissionPolicy"));
            return (answer, by_policy);
        }
    }

    /// Body of the request by this verb. `live`: the object on the server.
    fn body(&self, verb: &str, live: &Value) -> Value {
        let changed = |object: &Value| {
            let mut object = object.clone();
            merge(object.as_object_mut().unwrap(), &self.change);
            object
        };
        match verb {
            "create" | "generate-name" | "apply" if self.row["old"].is_null() => {
                let mut object = changed(&written(self.object.clone()));
                if verb == "generate-name" {
                    let metadata = object["metadata"].as_object_mut().unwrap();
                    metadata.remove("name");
                    metadata.insert("generateName".to_owned(), json!("n1-"));
                }
                object
            }
            "apply" => {
                let object = &self.object;
                let named = json!({"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]});
                let mut body = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": named});
                merge(body.as_object_mut().unwrap(), &self.change);
                body["metadata"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
                body
            }
            "update" => changed(live),
            "json-patch" => {
                let after = changed(live);
                let mut operations = Vec::new();
                for (part, fields) in &self.change {
                    for field in fields.as_object().into_iter().flat_map(Map::keys) {
                        let path = format!("/{part}/{field}");
                        operations.push(match &after[part][field] {
                            Value::Null => json!({"op": "remove", "path": path}),
                            value => json!({"op": "add", "path": path, "value": value}),
                        });
                    }
                    if live[part].is_null() {
                        operations = vec![json!({"op": "add", "path": format!("/{part}"), "value": after[part]})];
                    }
                }
                json!(operations)
            }
            "delete" | "deletecollection" => json!({}),
            _ => Value::Object(self.change.clone()),
        }
    }
}

/// Adds the headers that impersonate a user. Its further group has every right, so that only admission refuses.
fn as_user(mut request: http::request::Builder, user: &Value) -> http::request::Builder {
    request = request.header("Impersonate-User", text(&user["username"]));
    for group in list(&user["groups"]).map(text).chain(["system:masters"]) {
        request = request.header("Impersonate-Group", group);
    }
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        for value in list(values) {
            request = request.header(format!("Impersonate-Extra-{}", key.replace('/', "%2f")), text(value));
        }
    }
    request
}

async fn create(cluster: &Cluster, object: Value) -> Value {
    let path = format!("{}?fieldManager=kubelet", collection(&object));
    cluster.create(&path, written(object)).await
}

async fn api_server_admits_what_components_need_and_nothing_else(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let table: Value = serde_json::from_str(TABLE).unwrap();
    let node = create(&cluster, table["objects"]["node"].clone()).await;
    let table: Value = serde_json::from_str(&TABLE.replace("uid-of-n1", text(&node["metadata"]["uid"]))).unwrap();
    let policies = !cluster.is_sandbox();
    if policies {
        let row = json!({"new": "joining", "on": "nodeconfigs"});
        let row = Row::of(&table, &row);
        // The API server does not report when it uses a new policy.
        until("the policies are in use", async || row.send(&cluster, "create", &table["users"]["pod n2"]).await.1)
            .await;
    }
    let (mut refused, mut wrong) = (0, Vec::new());
    // First the requests that create, then those on the objects.
    for creates in [true, false] {
        if !creates {
            for name in ["config", "pointer", "other map"] {
                create(&cluster, table["objects"][name].clone()).await;
            }
        }
        for row in list(&table["requests"]).filter(|row| row["old"].is_null() == creates && row["real"] != json!(false))
        {
            let parts = Row::of(&table, row);
            for (user, verb) in
                list(&row["users"]).flat_map(|user| list(&row["verbs"]).map(move |verb| (user, text(verb))))
            {
                let allowed = row["allowed"].as_bool();
                if !policies && allowed != Some(true) {
                    continue;
                }
                let user = &table["users"][text(user)];
                let (answer, by_policy) = parts.send(&cluster, verb, user).await;
                refused += usize::from(by_policy);
                let as_expected = match allowed {
                    Some(true) => answer.is_ok(),
                    // Validation comes before admission.
                    Some(false) => by_policy || matches!(answer, Err((400 | 422, _))),
                    None => !by_policy,
                };
                if !as_expected {
                    wrong.push(format!("{}: {verb} by {user}: {answer:?}", text(&row["case"])));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!policies || refused > 200, "{refused} requests were refused by a policy");
    cluster.down().await;
}
