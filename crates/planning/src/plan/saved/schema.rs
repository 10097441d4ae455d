//! The JSON Schema of saved plans, made from their type.

use serde_json::Value;

use super::SavedPlan;
use crate::desired::schema;

/// The JSON Schema (2020-12) of what `diff --out` writes.
#[must_use]
pub fn plan_schema() -> Value {
    schema::of::<SavedPlan>("plan.v1")
}

#[cfg(test)]
mod tests {
    use super::super::stories::example;
    use super::*;

    #[test]
    fn the_schema_in_the_repository_is_up_to_date() {
        let file = include_str!("../../../../../schemas/plan.v1.json");
        assert_eq!(
            schema::pretty(&plan_schema()),
            file,
            "write it anew with `nodecfg schema plan > schemas/plan.v1.json`"
        );
    }

    #[test]
    fn the_schema_takes_plans_and_nothing_beside_them() {
        let validator = jsonschema::validator_for(&plan_schema()).expect("a schema");
        let mut plan: Value = serde_json::from_str(&example().text()).expect("JSON");
        assert!(validator.is_valid(&plan));
        plan["pools"][0]["assignments"][0]["secret"] = 1.into();
        assert!(!validator.is_valid(&plan));
    }

    #[test]
    fn every_field_is_in_the_documentation() {
        let page = include_str!("../../../../../docs/plans.md");
        let schema = plan_schema();
        let definitions = schema["$defs"].as_object().expect("definitions");
        let of_nodecfg = definitions.iter().filter(|(name, _)| !name.starts_with("Config")).map(|(_, of)| of);
        let fields = std::iter::once(&schema).chain(of_nodecfg).filter_map(|of| of["properties"].as_object());
        let missing: Vec<&String> =
            fields.flat_map(|fields| fields.keys()).filter(|field| !page.contains(&format!("`{field}`"))).collect();
        assert!(missing.is_empty(), "not in docs/plans.md: {missing:?}");
    }
}
