//! Simulated host in one folder: a kubelet process and scripts that start and stop it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::kubelet::{CONFIG, CONFIG_DIR, FOLDER, KubeletFaults};

/// `maxPods` of the provisioned configuration.
pub const LOCAL: i64 = 110;

/// Simulated host.
pub struct Host {
    folder: TempDir,
    port: u16,
}

impl Host {
    /// Host whose kubelet runs its provisioned configuration.
    pub fn provisioned() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = Self { folder, port };
        for name in ["kubelet", "kubelet.conf.d", "root"] {
            fs::create_dir(host.path(name)).unwrap();
        }
        fs::write(host.config(), host.configuration(LOCAL)).unwrap();
        fs::set_permissions(host.config(), fs::Permissions::from_mode(0o644)).unwrap();
        host.set_faults(&KubeletFaults::default());
        // The unit of a kubelet with Type=notify has started once the kubelet answers.
        host.script(
            "restart",
            &[
                "lines=$(cat journal 2>/dev/null | wc -l)",
                &host.stop_commands(),
                &host.start_commands(),
                "while [ -e notify ] && [ ! -e exited ] && [ \"$(wc -l < journal)\" -eq \"$lines\" ]; do sleep 0.05; done",
                "if [ -e notify ] && [ -e exited ]; then echo 'Job for kubelet.service failed. hunter2' >&2; exit 1; fi",
            ],
        );
        host.script("stop", &[&host.stop_commands()]);
        // This service manager starts a kubelet that exited again when it is asked for its count.
        host.script(
            "restarts",
            &[
                "if rm exited 2>/dev/null; then",
                &host.start_commands(),
                "echo again >> restarts.log; fi; touch restarts.log; wc -l < restarts.log",
            ],
        );
        host.script("log", &["tac kubelet.log"]);
        host.run("restart");
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubelet's `--config`.
    pub fn config(&self) -> PathBuf {
        self.path("kubelet/config.yaml")
    }

    /// Complete configuration for this host.
    pub fn configuration(&self, pods: i64) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nhealthzPort: {}\nkind: KubeletConfiguration\nmaxPods: {pods}\n",
            self.port
        )
    }

    /// Sets the kubelet's faults from its next start on.
    pub fn set_faults(&self, faults: &KubeletFaults) {
        fs::write(self.path("faults"), serde_json::to_string(faults).unwrap()).unwrap();
    }

    /// Removes the kubelet from the service manager, or adds it again.
    pub fn remove_service(&self, lost: bool) {
        if lost {
            fs::write(self.path("no-service"), "").unwrap();
        } else {
            fs::remove_file(self.path("no-service")).unwrap();
        }
    }

    /// Lets the restart command fail if the kubelet exits during its start, as systemd does for units with Type=notify.
    pub fn wait_for_start(&self) {
        fs::write(self.path("notify"), "").unwrap();
    }

    fn stop_commands(&self) -> String {
        "if [ -e no-service ]; then echo 'Unit kubelet.service not found. hunter2' >&2; exit 5; fi\n\
         echo \"$(basename \"$0\") $(ls root)\" >> commands\n\
         if [ -e pid ]; then kill -9 \"$(cat pid)\" 2>/dev/null; rm pid; fi\n\
         rm -f exited"
            .to_owned()
    }

    fn start_commands(&self) -> String {
        let program = std::env::current_exe().unwrap();
        format!(
            "{FOLDER}='{folder}' {CONFIG}='{config}' {CONFIG_DIR}='{drop_ins}' \\\n  \
             '{program}' kubelet::kubelet --exact --ignored --nocapture </dev/null >>kubelet.log 2>&1 &\n\
             echo $! > pid",
            folder = self.folder().display(),
            config = self.config().display(),
            drop_ins = self.path("kubelet.conf.d").display(),
            program = program.display(),
        )
    }

    fn script(&self, name: &str, parts: &[&str]) {
        let text = format!("#!/bin/sh\ncd '{}' || exit 1\n{}\n", self.folder().display(), parts.join("\n"));
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a script of the service manager: `restart` or `stop`. A shell reads it, because a script just written
    /// cannot be executed while another test's process has it open for writing.
    pub fn run(&self, script: &str) {
        assert!(Command::new("sh").arg(self.path(script)).status().unwrap().success());
    }

    /// Events of the kubelet: `started 110`, `refused 7`, `died 13`.
    pub fn journal(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Last event of the kubelet.
    pub fn last(&self) -> String {
        self.journal().pop().unwrap_or_default()
    }

    /// Executed commands of the service manager, each with the state files present.
    pub fn commands(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("commands")).unwrap_or_default();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.path("no-service").exists() {
            self.remove_service(false);
        }
        let _ = Command::new("sh").arg(self.path("stop")).status();
    }
}
