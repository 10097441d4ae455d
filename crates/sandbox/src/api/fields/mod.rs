//! Field ownership: the sets, comparisons and records behind `metadata.managedFields`, after
//! `sigs.k8s.io/structured-merge-diff`.

pub(crate) mod compare;
pub(crate) mod managed;
pub(crate) mod set;
