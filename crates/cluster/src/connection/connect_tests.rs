//! Tests of choosing a cluster from kubeconfigs and the environment.

use super::*;

fn environment() -> Environment {
    Environment { home: Some("/home/u".into()), ..Environment::default() }
}

fn write(directory: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn options(path: &Path, context: Option<&str>) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(path.to_path_buf()), context: context.map(str::to_owned) }
}

const TWO: &str = "
apiVersion: v1
kind: Config
current-context: b
clusters:
- {name: one, cluster: {server: 'https://127.0.0.1:6443'}}
contexts:
- {name: b, context: {cluster: one, user: u}}
- {name: a, context: {cluster: gone, user: u}}
users:
- {name: u, user: {token: s3cret}}
";

#[test]
fn chooses_as_kubectl_does() {
    let none = ConnectOptions::default();
    let home: PathBuf = "/home/u/.kube/config".into();
    let everything = |_: &Path| true;
    let nothing = |_: &Path| false;

    let explicit = options(Path::new("/x"), None);
    let set = Environment { kubeconfig: Some("/a:/b:".into()), in_pod: true, ..environment() };
    assert_eq!(choose(&explicit, &set, nothing), Ok(Origin::Files(vec!["/x".into()], "--kubeconfig")));
    assert_eq!(choose(&none, &set, everything), Ok(Origin::Files(vec!["/a".into(), "/b".into()], "$KUBECONFIG")));
    let only_b = |path: &Path| path == Path::new("/b");
    assert_eq!(choose(&none, &set, only_b), Ok(Origin::Files(vec!["/b".into()], "$KUBECONFIG")));
    // All missing: an error about these files, not a silent fallback to another cluster.
    assert_eq!(choose(&none, &set, nothing), Ok(Origin::Files(vec!["/a".into(), "/b".into()], "$KUBECONFIG")));

    assert_eq!(choose(&none, &environment(), everything), Ok(Origin::Files(vec![home], "the default")));
    let pod = Environment { in_pod: true, ..environment() };
    assert_eq!(choose(&none, &pod, nothing), Ok(Origin::Pod));
    let error = choose(&none, &environment(), nothing).expect_err("no cluster");
    assert_eq!(
        error.to_string(),
        "no cluster: tried --kubeconfig (not given), $KUBECONFIG (not set), /home/u/.kube/config (missing), the service \
         account of a pod (not in one)"
    );
    let context = ConnectOptions { context: Some("a".to_owned()), ..none };
    assert!(choose(&context, &pod, nothing).is_err());
}

#[tokio::test]
async fn error_names_the_missing_file() {
    let error = connect(&options(Path::new("/nowhere/config"), None), &environment()).await.expect_err("missing");
    assert!(error.to_string().starts_with("kubeconfig /nowhere/config (--kubeconfig) cannot be read: "), "{error}");
}

#[tokio::test]
async fn error_locates_bad_yaml_without_quoting() {
    let directory = tempfile::tempdir().expect("a directory");
    for text in [
        "users:\n- name: u\n  user: {token: s3cret\n",
        "users: s3cret\n",
        "users:\n- {name: u, user: {token: [s3cret]}}\n",
    ] {
        let path = write(&directory, "config", text);
        let error = connect(&options(&path, None), &environment()).await.expect_err("bad YAML");
        assert!(matches!(error, ConnectError::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains("is not a kubeconfig: line "), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn error_lists_the_existing_contexts() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = write(&directory, "config", TWO);
    let error = connect(&options(&path, Some("c")), &environment()).await.expect_err("unknown");
    assert_eq!(error.to_string(), "the kubeconfig has no context \"c\"; it has a, b");
    let error = connect(&options(&path, Some("a")), &environment()).await.expect_err("broken");
    assert_eq!(error.to_string(), "context \"a\" of the kubeconfig cannot be used: cluster \"gone\" is missing");
    let path = write(&directory, "without", "clusters: [{name: a, cluster: {server: https://127.0.0.1}}]");
    let error = connect(&options(&path, None), &environment()).await.expect_err("no context");
    assert_eq!(error.to_string(), "the kubeconfig names no current context; it has none");
}

#[tokio::test]
async fn reports_an_empty_file_as_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    // Content of an empty Secret, with or without a line end, and the output of `kubectl config view`.
    for nothing in
        ["", "\n", " \n\n", "---\n", "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\nusers: null\n"]
    {
        let path = write(&directory, "empty", nothing);
        let error = connect(&options(&path, None), &environment()).await.expect_err(nothing);
        assert_eq!(error.to_string(), format!("kubeconfig {} (--kubeconfig) is empty", path.display()), "{nothing:?}");
        assert!(error.help().contains("Secret"));
        // With a context, too: "no such context" would not help.
        let error = connect(&options(&path, Some("a")), &environment()).await.expect_err(nothing);
        assert!(matches!(error, ConnectError::Empty { .. }), "{error}");
    }
    // One of several files may be empty.
    let (empty, full) = (write(&directory, "empty", ""), write(&directory, "full", TWO));
    let both = |paths: [&Path; 2]| Environment {
        kubeconfig: Some(std::env::join_paths(paths).expect("paths")),
        ..environment()
    };
    connect(&ConnectOptions::default(), &both([&empty, &full])).await.expect("a client");
    let error = connect(&ConnectOptions::default(), &both([&empty, &empty])).await.expect_err("empty");
    assert!(error.to_string().ends_with("($KUBECONFIG) is empty"), "{error}");
}

#[tokio::test]
async fn connection_hides_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = write(&directory, "config", TWO);
    let connection = connect(&options(&path, None), &environment()).await.expect("a client");
    assert_eq!(connection.server, "https://127.0.0.1:6443");
    assert_eq!(connection.context.as_deref(), Some("b"));
    assert!(!format!("{connection:?}").contains("s3cret"));
}

#[tokio::test]
async fn error_hides_the_output_of_a_credential_plugin() {
    let directory = tempfile::tempdir().expect("a directory");
    for script in ["echo s3cret; exit 3", "echo s3cret", "exit 0"] {
        let text = TWO.replace(
            "{token: s3cret}",
            &format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, '{script}'], interactiveMode: Never}}}}"),
        );
        let path = write(&directory, "config", &text);
        let error = connect(&options(&path, None), &environment()).await.expect_err("no credentials");
        assert!(error.to_string().contains("credential plugin"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

/// A server that redirects would otherwise get the token sent to a host of its choice.
#[tokio::test]
async fn client_follows_no_redirect() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let bind = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (server, other) = (bind(), bind());
    let url = |listener: &std::net::TcpListener| format!("http://{}", listener.local_addr().expect("an address"));
    let (at, elsewhere) = (url(&server), url(&other));
    for listener in [&server, &other] {
        listener.set_nonblocking(true).expect("a socket");
    }
    let server = tokio::net::TcpListener::from_std(server).expect("a socket");
    let serving = tokio::spawn(async move {
        let mut requests = String::new();
        while let Ok((mut connection, _)) = server.accept().await {
            let mut request = [0; 4096];
            let size = connection.read(&mut request).await.expect("a request");
            requests.push_str(&String::from_utf8_lossy(request.get(..size).unwrap_or_default()));
            let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {elsewhere}/version\r\n");
            connection.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes()).await.expect("an answer");
            if requests.contains("/version") {
                break;
            }
        }
        requests
    });
    let directory = tempfile::tempdir().expect("a directory");
    let path = write(&directory, "config", &TWO.replace("https://127.0.0.1:6443", &at));
    let connection = connect(&options(&path, None), &environment()).await.expect("a client");
    let reader = crate::ClusterReader::new(connection.client, &at, crate::ReaderOptions::default());
    let error = reader.server_version().await.expect_err("a redirect");
    assert!(error.to_string().contains("307"), "{error}");
    assert!(serving.await.expect("a server").to_lowercase().contains("authorization: bearer s3cret"));
    let connected = other.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(connected, Err(std::io::ErrorKind::WouldBlock));
}
