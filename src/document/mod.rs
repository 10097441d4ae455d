//! Documents
