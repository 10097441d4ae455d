//! The page about the files describes each field, with its default.

use super::gates::{GateSpec, ObjectSpec, PrometheusSpec};
use super::kubelet::{FleetKubeletSpec, KubeletSpec};
use super::rollout::{OrderSpec, RolloutSpec};
use super::{FleetFile, FleetSpec, Metadata, NodePoolFile, NodePoolSpec};
use crate::Canary;
use crate::drain::DrainPolicy;
use crate::fields::{FieldInfo, Map};
use crate::schedule::Exclusion;
use crate::schedule::window::Window;

const PAGE: &str = include_str!("../../../../docs/reference/repository.md");

/// Fields of a map with the heading of their table, and the path of the map in that table.
type Described = (&'static str, &'static str, Vec<FieldInfo>);

fn described() -> Vec<Described> {
    vec![
        ("## nodecfg.yaml", "", FleetFile::fields()),
        ("## nodecfg.yaml", "metadata.", Metadata::fields()),
        ("## nodecfg.yaml", "spec.", FleetSpec::fields()),
        ("## nodecfg.yaml", "spec.kubelet.", FleetKubeletSpec::fields()),
        ("## pool.yaml", "", NodePoolFile::fields()),
        ("## pool.yaml", "metadata.", Metadata::fields()),
        ("## pool.yaml", "spec.", NodePoolSpec::fields()),
        ("## pool.yaml", "spec.kubelet.", KubeletSpec::fields()),
        ("## pool.yaml", "spec.rollout.", RolloutSpec::fields()),
        ("## pool.yaml", "spec.rollout.canary.", Canary::fields()),
        ("## pool.yaml", "spec.rollout.order.", OrderSpec::fields()),
        ("### Windows", "windows[].", Window::fields()),
        ("### Windows", "exclusions[].", Exclusion::fields()),
        ("### Drain", "", DrainPolicy::fields()),
        ("### Gates", "", GateSpec::fields()),
        ("### Gates", "prometheus.", PrometheusSpec::fields()),
        ("### Gates", "object.", ObjectSpec::fields()),
    ]
}

/// Default of a field in the table under a heading. `None`: the table has no row for it.
fn default_of(heading: &str, path: &str) -> Option<&'static str> {
    let section = PAGE.split_once(&format!("\n{heading}\n")).expect("a section").1;
    let table =
        section.lines().skip_while(|line| !line.starts_with("| field |")).take_while(|line| line.starts_with('|'));
    let row = table.filter_map(|row| row.strip_prefix(&format!("| `{path}` |"))).next()?;
    row.trim_end_matches('|').rsplit_once('|').map(|(_, default)| default.trim())
}

#[test]
fn page_describes_each_field_with_its_default() {
    let all = described();
    let is_described = |heading: &str, path: &str| all.iter().any(|(of, map, _)| *of == heading && *map == path);
    let mut problems = Vec::new();
    for (heading, map, fields) in &all {
        for field in fields {
            let path = format!("{map}{}", field.key);
            let Some(default) = default_of(heading, &path) else {
                if !is_described(heading, &format!("{path}.")) {
                    problems.push(format!("{heading}: no row for `{path}`: {}", field.doc));
                }
                continue;
            };
            let starts_with = |text: &str| default.trim_start_matches('`').starts_with(text);
            match &field.default {
                Some(text) if !starts_with(text) => {
                    problems.push(format!("{heading}: the default of `{path}` is {text}, not {default}"));
                }
                _ if field.is_required != (default == "required") => {
                    problems.push(format!("{heading}: whether `{path}` is required: {default}"));
                }
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "fix docs/reference/repository.md:\n{}", problems.join("\n"));
}
