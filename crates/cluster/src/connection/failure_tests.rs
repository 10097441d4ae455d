//! Tests of classifying failed attempts.

use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::connection::connect::{ConnectOptions, Environment, connect};
use crate::connection::fake::options;
use crate::reading::reader::ClusterReader;

/// A reader over a real connection to this URL, from a kubeconfig.
async fn real(server: &str) -> ClusterReader {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}]});
    std::fs::write(&path, kubeconfig.to_string()).expect("a file");
    let options_ = ConnectOptions { kubeconfig: Some(path), context: None };
    let environment = Environment { no_proxy: Some("*".to_owned()), ..Environment::default() };
    let connection = connect(&options_, &environment).await.expect("a client");
    ClusterReader::new(connection.client, &connection.server, options())
}

async fn cause(server: &str) -> Unreachable {
    match real(server).await.server_version().await.expect_err("unreachable") {
        ClusterError::Unreachable { cause, .. } => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn closed_port_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    assert_eq!(cause(&format!("https://{address}")).await, Unreachable::Refused);
    assert_eq!(cause(&format!("http://{address}")).await, Unreachable::Refused);
}

#[tokio::test]
async fn unresolvable_name_is_a_name_failure() {
    // RFC 2606 reserves this name.
    let cause = cause("https://nodecfg.invalid:6443").await;
    assert!(matches!(cause, Unreachable::Name(_)), "{cause:?}");
}

#[tokio::test]
async fn self_signed_certificate_is_a_tls_failure() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let cause = cause(&format!("https://{address}")).await;
    assert!(matches!(&cause, Unreachable::Tls(text) if text.contains("certificate")), "{cause:?}");
}

#[tokio::test]
async fn error_of_a_foreign_server_hides_credentials() {
    for answer in [None, Some("SSH-2.0-OpenSSH_9.6\r\n")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                if let Some(answer) = answer {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
        for scheme in ["http", "https"] {
            let reader = real(&format!("{scheme}://{address}")).await.within(Duration::from_millis(100));
            let error = reader.server_version().await.expect_err("no API server");
            let text = format!("{error} {error:?}");
            assert!(text.contains("cannot read the server's version") && !text.contains("s3cret"), "{text}");
        }
    }
}

#[test]
fn only_rbac_refusals_name_a_user() {
    assert_eq!(user_of("nodes is forbidden: User \"ci\" cannot list resource \"nodes\"").as_deref(), Some("ci"));
    assert_eq!(user_of("exceeded quota: pods"), None);
    assert_eq!(user_of("User \"x"), None);
}

#[test]
fn reads_a_status_of_any_shape() {
    let read = |text: &str| {
        let status = Status::read(text.as_bytes());
        (status.reason, status.message)
    };
    assert_eq!(read("404 page not found\n"), (None, Some("404 page not found".to_owned())));
    assert_eq!(read(r#"{"reason":"Expired","message":"m"}"#), (Some("Expired".to_owned()), Some("m".to_owned())));
    assert_eq!(read(r#"{"error":"x"}"#), (None, Some(r#"{"error":"x"}"#.to_owned())));
    assert_eq!(read(&"x".repeat(1000)).1.map(|text| text.len()), Some(200));
}

#[test]
fn removes_control_characters_from_a_status() {
    const HOSTILE: &str = "no\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{202e}\u{200b}!\nway";
    let structured =
        json!({"reason": HOSTILE, "message": HOSTILE.repeat(1000), "details": {"name": HOSTILE, "kind": HOSTILE}});
    let (plain, structured) = (Status::read(HOSTILE.as_bytes()), Status::read(structured.to_string().as_bytes()));
    assert_eq!(plain.message.as_deref(), Some("no ]52;c;eA==  2J!\nway"));
    assert_eq!(structured.message.as_ref().map(|text| text.chars().count()), Some(LONGEST_MESSAGE + 1));
    let details = structured.details.unwrap();
    for text in [structured.reason, structured.message, details.name, details.kind].into_iter().flatten() {
        assert!(!text.chars().any(|c| c != '\n' && printable::is_hidden(c)), "{text:?}");
    }
    // Logs and reasons are one line.
    let status = Box::new(Status::read(b"no\n::error::x"));
    let summary = AttemptError::Status { code: 500, retry_after: None, status }.summary();
    assert_eq!(summary, "the API server returns 500: no ::error::x");
}

#[test]
fn kubelet_without_configz_is_explained() {
    let operation = Operation::on(Verb::Get, Resource::Configz, None, "n1");
    assert_eq!(operation.path(), "/api/v1/nodes/n1/proxy/configz");
    let error = kubelet_refusal(&operation, 404, "404 page not found").unwrap();
    assert!(error.to_string().contains("enableDebuggingHandlers: false"), "{error}");
    assert_eq!(kubelet_refusal(&operation, 500, ""), None);
}
