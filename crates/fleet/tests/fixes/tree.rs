//! Edits of a tree by the path of a field.

use serde_json::Value;

/// Steps of a path: keys and indexes. Keys of the tree may contain dots.
fn steps(root: &Value, path: &str) -> Vec<String> {
    let (mut steps, mut node, mut rest) = (Vec::new(), Some(root), path.to_owned());
    while !rest.is_empty() {
        if let Some(key) = rest.strip_prefix("[\"") {
            let (key, after) = key.split_once("\"]").expect("a closed key");
            node = node.and_then(|node| node.get(key));
            steps.push(key.to_owned());
            rest = after.trim_start_matches('.').to_owned();
            continue;
        }
        if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']').expect("a closed index");
            node = node.and_then(|node| node.get(index.parse::<usize>().ok()?));
            steps.push(format!("[{index}"));
            rest = after.trim_start_matches('.').to_owned();
            continue;
        }
        let dotted =
            steps.first().is_some_and(|first: &String| first.starts_with("eviction") || first.ends_with("abels"));
        let known = node.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        let is_prefix = |key: &&String| {
            rest.strip_prefix(key.as_str()).is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
        };
        let key = match known.filter(is_prefix).max_by_key(|key| key.len()) {
            Some(key) => key.clone(),
            None if dotted => rest.clone(),
            None => rest[..rest.find(['.', '[']).unwrap_or(rest.len())].to_owned(),
        };
        node = node.and_then(|node| node.get(&key));
        rest = rest[key.len()..].trim_start_matches('.').to_owned();
        steps.push(key);
    }
    steps
}

/// Sets the value at a path, and creates the maps above it.
pub fn set(root: &mut Value, path: &str, value: Value) {
    let steps = steps(root, path);
    let mut node = root;
    for step in steps {
        node = match step.strip_prefix('[').and_then(|index| index.parse::<usize>().ok()) {
            Some(index) => &mut node[index],
            None => {
                if !node.is_object() {
                    *node = Value::Object(serde_json::Map::new());
                }
                node.as_object_mut().expect("a map").entry(step).or_insert(Value::Null)
            }
        };
    }
    *node = value;
}

/// Removes the value at a path.
pub fn remove(root: &mut Value, path: &str) -> Option<Value> {
    let mut steps = steps(root, path);
    let last = steps.pop()?;
    let mut node = root;
    for step in steps {
        node = match step.strip_prefix('[').and_then(|index| index.parse::<usize>().ok()) {
            Some(index) => node.get_mut(index)?,
            None => node.get_mut(&step)?,
        };
    }
    match last.strip_prefix('[').and_then(|index| index.parse::<usize>().ok()) {
        Some(index) => node.as_array_mut().filter(|list| index < list.len()).map(|list| list.remove(index)),
        None => node.as_object_mut()?.remove(&last),
    }
}

/// Removes items with this text from lists at the top level.
pub fn remove_item(root: &mut Value, text: &str) -> bool {
    let mut removed = false;
    for value in root.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        if let Some(list) = value.as_array_mut() {
            let before = list.len();
            list.retain(|item| item.as_str() != Some(text));
            removed |= list.len() < before;
        }
    }
    removed
}
