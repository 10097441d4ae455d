//! Declaration of maps. A field is declared once, with [`map!`]:
//!
//! ```text
//! map! {
//!     /// Canaries of a pool.
//!     pub struct Canary {
//!         /// Number of canaries. Default {default}.
//!         #[default(1)]
//!         "nodes" => nodes: u32,
//!     }
//! }
//! ```
//!
//! The key is that of the file. The doc comment is also the description in the JSON Schema; `{default}` in it becomes
//! the default as a file writes it. A field is one of these:
//!
//! - `name: Option<T>`: unset without the key.
//! - `name: T`: the default without the key, or the default of `T`.
//! - `name: T` with `#[required("name: example")]`: a finding without the key, whose help is to write the example.
//!
//! Further attributes, in this order:
//!
//! - `#[default(value)]`. An optional field stays `None`; the method of the same name returns the value or the default.
//! - `#[schema(json)]` adds entries to the JSON Schema of the field, or of the map.
//! - `#[check(function)]` checks a value after it was read: `fn(T, &mut At) -> Option<T>`. The check of a
//!   map gets `Option<Self>`, which is `None` if a required field is missing or invalid, and the
//!   [`Fields`](super::Fields).
//!
//! `struct Name: Default` implements `Default` with these defaults; no field is required or optional then, unless it has
//! no default.

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::{Fields, ReadField};
use kubelet_config::finding::Finding;

/// A field as its declaration describes it.
pub(crate) struct FieldInfo {
    /// Key in the file.
    pub key: &'static str,
    /// Description, with the default.
    pub doc: String,
    /// Default as a file writes it. `None`: the field has no default, or the description states it in words.
    pub default: Option<String>,
    /// Whether the field must be set.
    pub is_required: bool,
    is_optional: bool,
    schema: fn(&mut SchemaGenerator) -> Schema,
    /// Further entries of the schema.
    limits: Option<Value>,
}

/// A map whose fields are declared with [`map!`].
pub(crate) trait Map: Sized {
    /// Keys of the fields.
    const KEYS: &'static [&'static str];
    /// The fields, in their order.
    fn fields() -> Vec<FieldInfo>;
    /// Reads the fields of an open map. `None`, with a finding, if a required field is missing or invalid.
    fn read_fields(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Self>;
    /// The optional fields of this map or else of `other`. All other fields are those of this map.
    fn or(&self, other: &Self) -> Self;
}

/// Type of a field in the struct of its map: `T`, or `Option<T>`.
pub(crate) trait FieldType: Clone {
    /// Type of the value in the file.
    type Value: ReadField;
    /// Whether the field is an `Option`.
    const IS_OPTIONAL: bool;
    /// The field with a value. `None` if it needs one.
    fn of(value: Option<Self::Value>) -> Option<Self>;
    /// The value, if any.
    fn value(&self) -> Option<&Self::Value>;
}

impl<T: ReadField> FieldType for T {
    type Value = T;
    const IS_OPTIONAL: bool = false;

    fn of(value: Option<T>) -> Option<Self> {
        value
    }

    fn value(&self) -> Option<&T> {
        Some(self)
    }
}

impl<T: ReadField> FieldType for Option<T> {
    type Value = T;
    const IS_OPTIONAL: bool = true;

    fn of(value: Self) -> Option<Self> {
        Some(value)
    }

    fn value(&self) -> Option<&T> {
        self.as_ref()
    }
}

/// Joins the lines of a doc comment.
fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Describes a field of type `F`.
pub(crate) fn info<F: FieldType>(
    key: &'static str,
    lines: &[&str],
    examples: &[&str],
    default: Option<F::Value>,
    limits: Option<Value>,
) -> FieldInfo {
    let default = default.map(|value| value.notation()).filter(|text| !text.is_empty());
    FieldInfo {
        key,
        doc: sentence(lines).replace("{default}", default.as_deref().unwrap_or_default()),
        default,
        is_required: !examples.is_empty(),
        is_optional: F::IS_OPTIONAL,
        schema: |generator| generator.subschema_for::<<F::Value as ReadField>::Schema>(),
        limits,
    }
}

/// JSON Schema of a map.
pub(crate) fn map_schema<M: Map>(generator: &mut SchemaGenerator, lines: &[&str], limits: Option<Value>) -> Schema {
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for field in M::fields() {
        let mut schema = (field.schema)(generator);
        schema.insert("description".to_owned(), field.doc.into());
        extend(&mut schema, field.limits);
        // An editor inserts numbers and booleans. The description states the other defaults.
        let default = field.default.filter(|_| !field.is_optional).and_then(|text| serde_json::from_str(&text).ok());
        extend(&mut schema, default.map(|default: Value| serde_json::json!({ "default": default })));
        if field.is_required {
            required.push(field.key);
        }
        properties.insert(field.key.to_owned(), schema.to_value());
    }
    let mut schema =
        schemars::json_schema!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.insert("description".to_owned(), sentence(lines).into());
    extend(&mut schema, limits);
    schema
}

fn extend(schema: &mut Schema, limits: Option<Value>) {
    if let Some(Value::Object(limits)) = limits {
        limits.into_iter().for_each(|(key, value)| drop(schema.insert(key, value)));
    }
}

/// Declares a map; see the [module](self).
macro_rules! map {
    (
        $(#[$($attribute:tt)+])+
        $vis:vis struct $map:ident: Default {
            $(
                $(#[doc = $doc:literal])+ $(#[default($default:expr)])? $(#[check($check:path)])?
                $key:literal => $field:ident: $type:ty,
            )+
        }
    ) => {
        map! {
            $(#[$($attribute)+])+
            $vis struct $map {
                $($(#[doc = $doc])+ $(#[default($default)])? $(#[check($check)])? $key => $field: $type,)+
            }
        }

        impl Default for $map {
            fn default() -> Self {
                Self { $($field: map!(@or_default $($default)?)),+ }
            }
        }
    };
    (
        $(#[doc = $doc:literal])+
        $(#[derive($($derive:ident),+)])?
        $(#[name($name:literal)])?
        $(#[schema($map_limits:expr)])?
        $(#[check($map_check:path)])?
        $vis:vis struct $map:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $(#[required($example:literal)])?
                $(#[default($default:expr)])?
                $(#[schema($limits:expr)])?
                $(#[check($check:path)])?
                $key:literal => $field:ident: $type:ty,
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone $($(, $derive)+)?)]
        $vis struct $map {
            $(
                $(#[doc = $field_doc])+
                $vis $field: $type,
            )+
        }

        impl $crate::fields::Map for $map {
            const KEYS: &'static [&'static str] = &[$($key),+];

            fn fields() -> Vec<$crate::fields::FieldInfo> {
                // A field that is no `Option` has its default already, so that no other code may ask for it.
                $($(let _ = (Self::$field, stringify!($default));)?)+
                // Arrays of one value or none.
                vec![$(
                    $crate::fields::info::<$type>(
                        $key,
                        &[$($field_doc),+],
                        &[$($example)?],
                        [$($default)?].into_iter().next(),
                        [$($limits)?].into_iter().next(),
                    )
                ),+]
            }

            fn read_fields(
                fields: &$crate::fields::Fields<'_>,
                findings: &mut Vec<kubelet_config::finding::Finding>,
            ) -> Option<Self> {
                use $crate::fields::map;
                $($(fields.require($key, $example, findings);)?)+
                $(
                    let value = fields.value($key, findings);
                    $(let value = value.and_then(|value| {
                        let (node, path) = (fields.get($key)?, fields.path($key));
                        $check(value, &mut $crate::fields::At { node, path: &path, findings })
                    });)?
                    let $field = <$type as $crate::fields::FieldType>::of(value);
                    let $field = map!(@unless_set $field, $type, [$($example)?] [$($default)?]);
                )+
                let complete = || Some(Self { $($field: $field?),+ });
                let map = complete();
                $(let map = $map_check(map, fields, findings);)?
                map
            }

            fn or(&self, other: &Self) -> Self {
                use $crate::fields::FieldType;
                Self {
                    $($field: <$type as FieldType>::of(self.$field.value().or(other.$field.value()).cloned())
                        .unwrap_or_else(|| self.$field.clone())),+
                }
            }
        }

        impl $map {
            $($(
                #[doc = concat!("`", $key, "`, or its default.")]
                pub(crate) fn $field(&self) -> <$type as $crate::fields::FieldType>::Value {
                    $crate::fields::FieldType::value(&self.$field).cloned().unwrap_or_else(|| $default)
                }
            )?)+
        }

        impl $crate::fields::ReadField for $map {
            type Schema = Self;

            fn read(at: &mut $crate::fields::At<'_>) -> Option<Self> {
                use $crate::fields::{Fields, Map};
                Self::read_fields(&Fields::open(at.node, at.path, Self::KEYS, at.findings)?, at.findings)
            }
        }

        impl schemars::JsonSchema for $map {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                map!(@name $map $($name)?).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::fields::map_schema::<Self>(generator, &[$($doc),+], [$($map_limits)?].into_iter().next())
            }
        }
    };
    (@name $map:ident) => { stringify!($map) };
    (@name $map:ident $name:literal) => { $name };
    (@unless_set $field:ident, $type:ty, [$example:literal] []) => { $field };
    (@unless_set $field:ident, $type:ty, [] []) => { $field.or_else(|| Some(Default::default())) };
    (@unless_set $field:ident, $type:ty, [] [$default:expr]) => {
        $field.or_else(|| <$type as $crate::fields::FieldType>::of(Some($default)))
    };
    (@or_default) => { Default::default() };
    (@or_default $default:expr) => { $default };
}

pub(crate) use map;
