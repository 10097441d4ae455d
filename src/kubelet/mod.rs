//! Facts about KubeletConfiguration (kubelet.config.k8s.io/v1beta1), whatever the cluster: its fields, and the texts
//! that its durations and quantities are made of. Facts only; what nodecfg makes of them is said elsewhere.

pub mod address;
pub mod defaults;
pub mod direction;
pub mod duration;
pub mod fields;
pub mod filepath;
pub mod format;
pub mod gates;
pub mod minor;
pub mod pod_range;
pub mod policy_options;
pub mod quantity;
pub mod risk;
pub mod rules;
pub mod schema;
pub mod secrets;
pub mod strconv;
pub mod table;
pub mod tls;

pub use minor::Minor;

/// The `apiVersion` that every kubelet asks for, exactly.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The `kind` that every kubelet asks for, exactly.
pub const KIND: &str = "KubeletConfiguration";
