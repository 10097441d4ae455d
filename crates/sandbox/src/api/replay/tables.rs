//! Reduction of discovery and tables to what the sandbox serves. A real server serves more.

use serde_json::Value;

fn list<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut)
}

/// Keeps the recorded items whose field `by` also occurs in the response.
fn keep_served(wanted: &mut Value, found: &Value, pointer: &str, by: &str) {
    let found: Vec<Value> =
        found.pointer(pointer).and_then(Value::as_array).into_iter().flatten().map(|i| i[by].clone()).collect();
    if let Some(items) = list(wanted, pointer) {
        items.retain(|item| found.contains(&item[by]));
    }
}

/// Removes incomparable parts from a recorded response and from the response of the sandbox.
pub(super) fn reduce(case: &str, mut wanted: Value, mut found: Value) -> (Value, Value) {
    match case {
        "api-resources-core" => {
            keep_served(&mut wanted, &found, "/body/resources", "name");
            let facts = ["kind", "name", "namespaced", "shortNames"];
            for response in [&mut wanted, &mut found] {
                response["body"]["apiVersion"] = Value::Null;
                for resource in list(response, "/body/resources").unwrap() {
                    resource.as_object_mut().unwrap().retain(|key, _| facts.contains(&key.as_str()));
                }
            }
        }
        "api-groups" => {
            keep_served(&mut wanted, &found, "/body/groups", "name");
            for response in [&mut wanted, &mut found] {
                let groups = list(response, "/body/groups").unwrap();
                groups.retain(|group| !matches!(group["name"].as_str(), Some("apps" | "batch" | "storage.k8s.io")));
                groups.sort_by_key(|group| group["name"].to_string());
            }
            for index in 0..list(&mut wanted, "/body/groups").unwrap().len() {
                keep_served(&mut wanted, &found, &format!("/body/groups/{index}/versions"), "groupVersion");
            }
        }
        "list-nodes-table" => {
            for response in [&mut wanted, &mut found] {
                for column in list(response, "/body/columnDefinitions").unwrap() {
                    column.as_object_mut().unwrap().remove("description");
                }
                for row in list(response, "/body/rows").unwrap() {
                    let age = &mut row["cells"][3];
                    assert!(age.as_str().unwrap().ends_with('s'), "{age} is not an age in seconds");
                    *age = "age".into();
                }
            }
        }
        _ => {}
    }
    (wanted, found)
}
