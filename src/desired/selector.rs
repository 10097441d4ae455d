//! sel
