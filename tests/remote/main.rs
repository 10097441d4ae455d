//! Repositories on git servers: the program is run against real ones on loopback, git over HTTPS with a token, sshd with a
//! key, and files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod cache;
mod contents;
mod file;
mod https;
mod origin;
mod program;
mod server;
mod ssh;
mod sshd;
