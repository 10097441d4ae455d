//! From a snapshot to what it asks for.
