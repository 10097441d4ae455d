//! Repo
