//! A real kube-apiserver and etcd on loopback, killed when dropped. Benchmarks use this file, too.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig as KubeKubeconfig};
use nodecfg_sandbox::server::kubeconfig::Kubeconfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Environment variable with the folder of a real control plane.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// Name and bearer token of the administrator.
pub const ADMIN: &str = "admin";
const TOKEN: &str = "scenarios-admin-token";
/// Time limit of the start, sized for a busy machine.
const START_LIMIT: Duration = Duration::from_secs(180);

/// Minor version of the kube-apiserver in a folder.
pub fn minor(assets: &Path) -> u32 {
    let binary = assets.join("kube-apiserver");
    let output = Command::new(&binary).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let minor = text.trim().strip_prefix("Kubernetes v1.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.unwrap_or_else(|| panic!("{} --version prints {text:?}", binary.display()))
}

/// etcd and kube-apiserver, killed when dropped.
pub struct Servers {
    processes: Vec<Child>,
    pub kubeconfig: Kubeconfig,
    data: TempDir,
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Stopping the API server first avoids its errors about missing storage.
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Servers {
    pub async fn start(assets: &Path) -> Self {
        let data = TempDir::new().unwrap();
        let [etcd, peer, api] = free_ports();
        let storage = format!("http://127.0.0.1:{etcd}");
        let peers = format!("http://127.0.0.1:{peer}");
        let ca_pem = credentials(data.path());
        let kubeconfig = Kubeconfig { server: format!("https://127.0.0.1:{api}"), ca_pem, token: TOKEN.to_owned() };
        let mut servers = Self { processes: Vec::new(), kubeconfig, data };

        let mut arguments = vec![
            format!("--data-dir={}", servers.path("etcd")),
            format!("--listen-client-urls={storage}"),
            format!("--advertise-client-urls={storage}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ];
        // The data need not survive a crash; etcd 3.4.10 and later have a flag for this.
        let help = Command::new(assets.join("etcd")).arg("--help").output().unwrap();
        if [help.stdout, help.stderr].iter().any(|text| String::from_utf8_lossy(text).contains("unsafe-no-fsync")) {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        servers.spawn(&assets.join("etcd"), &arguments);

        let minor = minor(assets);
        let mut arguments = vec![
            format!("--etcd-servers={storage}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={api}"),
            format!("--cert-dir={}", servers.path("certificates")),
            format!("--tls-cert-file={}", servers.path("server.crt")),
            format!("--tls-private-key-file={}", servers.path("server.key")),
            format!("--token-auth-file={}", servers.path("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", servers.path("accounts.pub")),
            format!("--service-account-signing-key-file={}", servers.path("accounts.key")),
            // No controller creates service accounts here.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        // Up to 1.19, the server also listens without TLS by default.
        if minor < 20 {
            arguments.push("--insecure-port=0".to_owned());
        }
        // From 1.22 to 1.25, the field exists and its gate is off by default.
        if (22..=25).contains(&minor) {
            arguments.push("--feature-gates=DynamicKubeletConfig=true".to_owned());
        }
        servers.spawn(&assets.join("kube-apiserver"), &arguments);
        servers.until_ready().await;
        servers
    }

    fn path(&self, name: &str) -> String {
        self.data.path().join(name).display().to_string()
    }

    fn spawn(&mut self, binary: &Path, arguments: &[String]) {
        let name = binary.file_name().unwrap().to_str().unwrap();
        let log = File::create(self.data.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()));
        self.processes.push(child);
    }

    pub async fn client(&self) -> Client {
        let kubeconfig = KubeKubeconfig::from_yaml(&self.kubeconfig.to_yaml()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::try_from(config).unwrap()
    }

    /// Waits until the API server is ready and has created its namespaces. Panics with the log if a server exits.
    async fn until_ready(&mut self) {
        let client = self.client().await;
        let logs: Vec<PathBuf> = ["etcd.log", "kube-apiserver.log"].map(|name| self.data.path().join(name)).to_vec();
        let began = Instant::now();
        loop {
            for (process, log) in self.processes.iter_mut().zip(&logs) {
                if let Some(status) = process.try_wait().unwrap() {
                    panic!("a server exited ({status}):\n{}", fs::read_to_string(log).unwrap_or_default());
                }
            }
            let mut ready = true;
            for path in ["/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"] {
                ready &= client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.is_ok();
            }
            if ready {
                return;
            }
            assert!(began.elapsed() < START_LIMIT, "the API server is not ready after {START_LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Ports that are currently free. If another process takes one before its use, the start fails.
fn free_ports() -> [u16; 3] {
    [(); 3]
        .map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
        .map(|listener| listener.local_addr().unwrap().port())
}

/// Writes the API server's certificate, the service account keys and the administrator's token. Returns the
/// authority's certificate.
fn credentials(folder: &Path) -> String {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    let accounts = KeyPair::generate().unwrap();
    for (name, text) in [
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
        ("accounts.key", accounts.serialize_pem()),
        ("accounts.pub", accounts.public_key_pem()),
        ("tokens.csv", format!("{TOKEN},{ADMIN},{ADMIN},\"system:masters\"\n")),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    ca_pem
}
