//! Pages as they are written.
