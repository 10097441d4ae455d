//! The machine before its rewrite, for side-by-side tests.
#![allow(missing_docs, dead_code)]

pub mod machine;
mod pool;
mod pool_order;
mod signals;
