//! KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`) as the kubelet of each Kubernetes version reads it.
//!
//! The crate answers, without a cluster and without a kubelet:
//!
//! - what a file says, with the line of every value ([`document`]);
//! - which fields, feature gates and defaults a version has ([`fields`], [`gates`], [`defaults`]);
//! - whether the kubelet of a version loads, accepts and starts with a configuration, and if not, at which stage it stops
//!   and with which error ([`verdict`]);
//! - which accepted settings are likely mistakes ([`advice`]);
//! - what a change does to running pods ([`risk`]).
//!
//! The facts are in the tables of the folder `data`, each row with its source in Kubernetes. Everything is a pure function
//! of its arguments: no file, clock, network or environment is read.
//!
//! ```
//! use kubelet_config::document::{Document, changes};
//! use kubelet_config::verdict::assess;
//! use kubelet_config::{Minor, risk};
//!
//! let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
//! let read = |body: &str| Document::parse("kubelet.yaml", &format!("{head}{body}")).document.expect("a document");
//!
//! // A kubelet of 1.36 refuses a threshold that is neither a quantity nor a percentage, and the error has its line.
//! let typo = read("evictionHard: {memory.available: ten percent}\n");
//! let verdict = assess(&typo, Minor(36));
//! assert!(!verdict.runs());
//! let refusal = verdict.reasons().next().expect("a reason");
//! assert_eq!((&*refusal.place.file, refusal.place.line), ("kubelet.yaml", 3));
//!
//! // A change that a kubelet accepts may still need a drained node.
//! let (old, new) = (read("cpuManagerPolicy: none\n"), read("cpuManagerPolicy: static\n"));
//! let change = changes(Some(&old), Some(&new)).remove(0);
//! assert_eq!(change.path, "cpuManagerPolicy");
//! assert_eq!(risk::of(&change.path).class, risk::Class::Drain);
//! ```

pub mod address;
pub mod advice;
pub mod defaults;
pub mod direction;
pub mod document;
pub mod duration;
pub mod fields;
pub mod filepath;
pub mod finding;
pub mod format;
pub mod gates;
pub mod label;
pub mod minor;
pub mod pod_range;
pub mod policy_options;
pub mod quantity;
pub mod risk;
pub mod rules;
pub mod schema;
pub mod secrets;
pub mod spelling;
pub mod strconv;
pub mod table;
pub mod tls;
pub mod verdict;

pub use minor::Minor;

/// The `apiVersion` that every kubelet asks for, exactly.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The `kind` that every kubelet asks for, exactly.
pub const KIND: &str = "KubeletConfiguration";
