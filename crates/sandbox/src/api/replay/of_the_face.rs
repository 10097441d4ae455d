//! What of the face's answers is compared: everything about what is served. A real server serves more, and says it in
//! more words.

use serde_json::Value;

fn list<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut)
}

/// Keeps of the recorded items those that are found too, by this field.
fn keep(wanted: &mut Value, found: &Value, pointer: &str, by: &str) {
    let found: Vec<Value> =
        found.pointer(pointer).and_then(Value::as_array).into_iter().flatten().map(|i| i[by].clone()).collect();
    if let Some(items) = list(wanted, pointer) {
        items.retain(|item| found.contains(&item[by]));
    }
}

/// Leaves of a recorded and a found answer what can be compared.
pub(super) fn reduce(case: &str, mut wanted: Value, mut found: Value) -> (Value, Value) {
    match case {
        "api-resources-core" => {
            keep(&mut wanted, &found, "/body/resources", "name");
            // Pods can only be read here: there are none.
            for answer in [&mut wanted, &mut found] {
                list(answer, "/body/resources").unwrap().retain(|resource| resource["name"] != "pods");
            }
        }
        "api-groups" => {
            keep(&mut wanted, &found, "/body/groups", "name");
            for index in 0..list(&mut wanted, "/body/groups").unwrap().len() {
                keep(&mut wanted, &found, &format!("/body/groups/{index}/versions"), "groupVersion");
            }
        }
        "list-nodes-table" => {
            for answer in [&mut wanted, &mut found] {
                for column in list(answer, "/body/columnDefinitions").unwrap() {
                    column.as_object_mut().unwrap().remove("description");
                }
                for row in list(answer, "/body/rows").unwrap() {
                    let age = &mut row["cells"][3];
                    assert!(age.as_str().unwrap().ends_with('s'), "{age} is no age of a few seconds");
                    *age = "age".into();
                }
            }
        }
        _ => {}
    }
    (wanted, found)
}
