//! KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`) as the kubelet of each Kubernetes version reads it.
//!
//! The crate needs neither a cluster nor a kubelet. It provides:
//!
//! - the content of a file, with the line of every value ([`document`]);
//! - the fields, feature gates and defaults of each version ([`fields`], [`gates`], [`defaults`]);
//! - the result of loading, validating and starting with a configuration, and the stage and error of a failure
//!   ([`verdict`]);
//! - accepted settings that are likely mistakes ([`advice`]);
//! - the values that a kubelet runs with its file, drop-ins and flags, with their origins, and the changes between two
//!   configurations with the defaults of a version ([`effective`]);
//! - the effect of each change on running pods ([`risk`]), and on a node that had a value before
//!   ([`risk::removals`]).
//!
//! The facts are tables in the folder `data`. Each row names its source in Kubernetes. Every function is pure: the
//! crate reads no file, clock, network or environment.
//!
//! ```
//! use kubelet_config::document::{Document, changes};
//! use kubelet_config::verdict::assess;
//! use kubelet_config::{Minor, risk};
//!
//! let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
//! let read = |body: &str| Document::parse("kubelet.yaml", &format!("{head}{body}")).document.expect("a document");
//!
//! // A kubelet 1.36 refuses a threshold that is neither a quantity nor a percentage. The error has the line.
//! let typo = read("evictionHard: {memory.available: ten percent}\n");
//! let verdict = assess(&typo, Minor(36));
//! assert!(!verdict.runs());
//! let refusal = verdict.reasons().next().expect("a reason");
//! assert_eq!((&*refusal.place.file, refusal.place.line), ("kubelet.yaml", 3));
//!
//! // An accepted change may still need a drained node.
//! let (old, new) = (read("cpuManagerPolicy: none\n"), read("cpuManagerPolicy: static\n"));
//! let change = changes(Some(&old), Some(&new)).remove(0);
//! assert_eq!(change.path, "cpuManagerPolicy");
//! assert_eq!(risk::of(&change.path).class, risk::Class::Drain);
//! ```

pub mod advice;
pub mod capacity;
pub mod defaults;
pub mod document;
pub mod effective;
pub mod fields;
pub mod finding;
pub mod gates;
mod minor;
pub mod risk;
pub mod startup_error;
mod table;
pub mod values;
pub mod verdict;

pub use minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};

/// The `apiVersion` that every kubelet requires.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The `kind` that every kubelet requires.
pub const KIND: &str = "KubeletConfiguration";
