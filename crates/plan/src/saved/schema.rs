//! JSON Schema of saved plans, derived from their type.

use serde_json::Value;

use super::SavedPlan;
use nodecfg_fleet::formats::schema;

/// JSON Schema (2020-12) of the output of `diff --out`.
#[must_use]
pub fn plan_schema() -> Value {
    schema::of::<SavedPlan>("plan.v1")
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::example;
    use super::*;

    #[test]
    fn schema_in_repository_is_up_to_date() {
        let file = include_str!("../../../../schemas/plan.v1.json");
        assert_eq!(
            schema::pretty(&plan_schema()),
            file,
            "regenerate it with `nodecfg schema plan > schemas/plan.v1.json`"
        );
    }

    #[test]
    fn schema_accepts_plan_and_rejects_unknown_field() {
        let validator = jsonschema::validator_for(&plan_schema()).expect("a schema");
        let mut plan: Value = serde_json::from_str(&example().text()).expect("JSON");
        assert!(validator.is_valid(&plan));
        plan["pools"][0]["assignments"][0]["secret"] = 1.into();
        assert!(!validator.is_valid(&plan));
    }

    #[test]
    fn documents_every_field() {
        let page = include_str!("../../../../docs/reference/saved-plan.md");
        let schema = plan_schema();
        let definitions = schema["$defs"].as_object().expect("definitions");
        let of_nodecfg = definitions.iter().filter(|(name, _)| !name.starts_with("Config")).map(|(_, of)| of);
        let fields = std::iter::once(&schema).chain(of_nodecfg).filter_map(|of| of["properties"].as_object());
        let missing: Vec<&String> =
            fields.flat_map(|fields| fields.keys()).filter(|field| !page.contains(&format!("`{field}`"))).collect();
        assert!(missing.is_empty(), "not in docs/reference/saved-plan.md: {missing:?}");
    }
}
