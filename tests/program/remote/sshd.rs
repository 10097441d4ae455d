//! sshd with a key pair and a host key for one test.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::program::TestEnv;

const SSHD: &str = "/usr/sbin/sshd";

pub struct Sshd {
    child: Child,
    pub port: u16,
    pub user: String,
    pub key: PathBuf,
    /// Line of known_hosts for the ed25519 host key.
    pub known: String,
    pub log: PathBuf,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn keygen(path: &Path, passphrase: &str) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f"]).arg(path);
    assert!(command.stdin(Stdio::null()).status().unwrap().success());
}

pub fn public(path: &Path) -> String {
    let text = fs::read_to_string(path.with_extension("pub")).unwrap();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

impl Sshd {
    /// Starts sshd. Without an installed sshd, prints a note and returns `None`.
    pub fn start(env: &TestEnv) -> Option<Self> {
        let user = String::from_utf8(Command::new("id").arg("-un").output().ok()?.stdout).unwrap().trim().to_owned();
        // As root, sshd uses a folder for privilege separation that the system creates at boot.
        let separated = user != "root" || fs::create_dir_all("/run/sshd").is_ok();
        if !Path::new(SSHD).exists() || !separated {
            // Bypasses the test runner, which prints output only for failed tests.
            let _ = writeln!(std::io::stderr(), "skipped: {SSHD} is missing");
            return None;
        }
        let (host_key, key) = (env.path("host_key"), env.path("id_test"));
        keygen(&host_key, "");
        keygen(&key, "");
        let authorized = env.path("authorized_keys");
        fs::write(&authorized, format!("{}\n", public(&key))).unwrap();
        let log = env.path("sshd.log");
        // Another process may take the port before sshd; then the next port is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let config = env.path("sshd_config");
            let text = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nPidFile none\n\
                 SetEnv PATH={} GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*\n",
                host_key.display(),
                authorized.display(),
                std::env::var("PATH").unwrap(),
            );
            fs::write(&config, text).unwrap();
            let mut command = Command::new(SSHD);
            command.args(["-D", "-e", "-f"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
            let mut child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    let known = format!("[127.0.0.1]:{port} {}\n", public(&host_key));
                    return Some(Self { child, port, user, key, known, log });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("sshd does not start: {}", fs::read_to_string(&log).unwrap());
    }

    pub fn url(&self, path: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, path.display())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}
