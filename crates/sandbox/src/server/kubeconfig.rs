//! Kubeconfig with which kubectl and other clients connect to the sandbox.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Name of the cluster, user and context in a kubeconfig.
pub const CONTEXT: &str = "nodecfg-sandbox";

/// Error of saving a kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig {path:?}: {source}; choose a path in an existing, writable folder")]
pub struct SaveError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the operating system.
    pub source: io::Error,
}

/// Connection data of a client.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// URL of the server.
    pub server: String,
    /// Certificate of the trusted authority, PEM.
    pub ca_pem: String,
    /// Bearer token.
    pub token: String,
}

impl Kubeconfig {
    /// Content of the file, in kubectl's YAML format. Contains the token.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        // JSON strings are YAML strings, so this quotes every URL and token.
        let (server, token, name) = (json!(self.server), json!(self.token), json!(CONTEXT));
        let ca = STANDARD.encode(&self.ca_pem);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: {name}\n  \
               cluster:\n    \
                 certificate-authority-data: {ca}\n    \
                 server: {server}\n\
             users:\n\
             - name: {name}\n  \
               user:\n    \
                 token: {token}\n\
             contexts:\n\
             - name: {name}\n  \
               context:\n    \
                 cluster: {name}\n    \
                 user: {name}\n\
             current-context: {name}\n\
             preferences: {{}}\n"
        )
    }

    /// Writes the file, readable by its owner only (mode 0600 on Unix). Replaces an existing file.
    ///
    /// # Errors
    /// Fails if the file cannot be created or written.
    pub fn save(&self, path: &Path) -> Result<(), SaveError> {
        self.write(path).map_err(|source| SaveError { path: path.to_owned(), source })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        // An existing file would keep its mode.
        #[cfg(unix)]
        file.set_permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600))?;
        file.write_all(self.to_yaml().as_bytes())?;
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Kubeconfig {
        Kubeconfig {
            server: "https://127.0.0.1:6443".to_owned(),
            ca_pem: "-----BEGIN CERTIFICATE-----\n".to_owned(),
            token: "to\"ken: #1".to_owned(),
        }
    }

    #[test]
    fn kube_parses_kubeconfig() {
        let read = kube::config::Kubeconfig::from_yaml(&example().to_yaml()).expect("is a kubeconfig");
        assert_eq!(read.current_context.as_deref(), Some(CONTEXT));
        let context = read.contexts[0].context.as_ref().expect("has a context");
        assert_eq!((context.cluster.as_str(), context.user.as_deref()), (CONTEXT, Some(CONTEXT)));
        let cluster = read.clusters[0].cluster.as_ref().expect("has a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        let ca = STANDARD.decode(cluster.certificate_authority_data.as_deref().expect("has a CA")).expect("is base64");
        assert_eq!(ca, example().ca_pem.into_bytes());
        let yaml: serde_json::Value = serde_saphyr::from_str(&example().to_yaml()).expect("is YAML");
        assert_eq!(yaml["users"][0]["user"]["token"], "to\"ken: #1");
    }

    #[cfg(unix)]
    #[test]
    fn saved_file_is_private_even_if_it_existed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("config");
        std::fs::write(&path, "x".repeat(10_000)).expect("writes");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("sets the mode");
        example().save(&path).expect("saves");
        assert_eq!(std::fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), example().to_yaml());
    }

    #[test]
    fn save_error_names_path() {
        let error = example().save(Path::new("/nowhere/at/all")).expect_err("no such folder");
        assert!(error.to_string().contains("\"/nowhere/at/all\""), "{error}");
    }
}
