//! Tests of repositories on git servers. The program runs against real servers on loopback: `git http-backend` over
//! HTTPS, sshd, and `file://`.

mod cache;
mod contents;
mod file;
mod https;
mod origin;
mod program;
mod proxy;
mod server;
mod ssh;
mod sshd;
