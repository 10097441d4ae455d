//! What a run tells, as it is written.
