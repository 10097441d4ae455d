//! Tests of the client against a stand-in for Prometheus.

use nodecfg_sandbox::server::serve::{self, Identity, Options};

use super::super::stand_in::{Reply, StandIn, router};
use super::*;

const OK: &str = "{}";

fn client(url: &str, token: Token) -> Prometheus {
    Prometheus::new(PrometheusAddress::parse(url).unwrap(), token, None).unwrap()
}

#[tokio::test]
async fn sends_expression_and_token_in_the_request_only() {
    let server = StandIn::start(|_| Some(Reply::vector(&["{\"a\":\"b\"}"]))).await;
    let expression = "sum by (a) (rate(x{b=~\"c|d\"}[5m])) > 0 & 1 + ü";
    let series = client(&format!("{}/prefix/", server.url), Token::Text("secret\n".to_owned())).query(expression).await;
    assert_eq!(series.unwrap().len(), 1);
    client(&server.url, Token::None).query("up").await.unwrap();
    let seen = server.seen();
    assert_eq!((seen[0].path.as_str(), seen[0].query.as_str()), ("/prefix/api/v1/query", expression));
    assert_eq!(seen[0].authorization.as_deref(), Some("Bearer secret"));
    assert_eq!((seen[1].path.as_str(), seen[1].authorization.as_deref()), ("/api/v1/query", None));
    let debug = format!("{:?}", client(&server.url, Token::Text("secret".to_owned())));
    assert!(!debug.contains("secret"), "{debug}");
    assert!(!format!("{:?}", Token::Text("secret".to_owned())).contains("secret"));
}

#[tokio::test]
async fn follows_no_redirect() {
    let target = StandIn::start(|_| Some(Reply::vector(&[]))).await;
    let location = format!("{}/api/v1/query", target.url);
    let server =
        StandIn::start(move |_| Some(Reply { headers: vec![("location", location.clone())], ..Reply::body(307, "") }))
            .await;
    let why = client(&server.url, Token::Text("secret".to_owned())).query("up").await.unwrap_err();
    assert_eq!(why, "Prometheus redirects the request (307); check --prometheus-url");
    assert_eq!(target.seen(), []);
}

#[tokio::test]
async fn answers_are_bounded_and_printable() {
    let big = format!("\"{}\"", "x".repeat(RESPONSE_LIMIT));
    let server = StandIn::start(move |query| {
        Some(match query {
            "big" => Reply::body(200, big.clone()),
            "echo" => Reply::body(422, "{\"status\":\"error\",\"error\":\"Bearer secret\\u001b[2J\\nx\"}"),
            _ => Reply::body(500, OK),
        })
    })
    .await;
    let client = client(&server.url, Token::Text("secret".to_owned()));
    let why = client.query("big").await.unwrap_err();
    assert_eq!(why, "the answer is larger than 1 MiB; aggregate the series");
    let why = client.query("echo").await.unwrap_err();
    assert_eq!(why, "Prometheus refuses the query: Bearer <token> [2J x");
}

#[tokio::test]
async fn silence_is_no_answer_after_the_time_limit() {
    let server = StandIn::start(|_| None).await;
    let client = client(&server.url, Token::None);
    assert_eq!(client.timeout, Duration::from_secs(10));
    let why = Prometheus { timeout: Duration::from_millis(200), ..client }.query("up").await.unwrap_err();
    assert!(why.starts_with("no answer of 127.0.0.1:") && why.ends_with(" in 200ms"), "{why}");
}

#[tokio::test]
async fn unreachable_server_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let why = client(&format!("http://{address}"), Token::None).query("up").await.unwrap_err();
    assert!(why.starts_with(&format!("{address} cannot be reached: ")) && why.contains("refused"), "{why}");
}

#[tokio::test]
async fn token_file_is_read_before_each_query() {
    let server = StandIn::start(|_| Some(Reply::vector(&[]))).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let client = client(&server.url, Token::File(file.clone()));
    let why = client.query("up").await.unwrap_err();
    assert!(why.starts_with("the file of --prometheus-token-file cannot be read: "), "{why}");
    for token in ["first", "second"] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        client.query("up").await.unwrap();
    }
    for bad in ["", " \n", "a\u{1}b", &"x".repeat(TOKEN_LIMIT + 1)] {
        std::fs::write(&file, bad).unwrap();
        let why = client.query("up").await.unwrap_err();
        assert!(why.starts_with("the token ") && why.len() < 100, "{why}");
    }
    let sent: Vec<Option<String>> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(sent, [Some("Bearer first".to_owned()), Some("Bearer second".to_owned())]);
}

#[test]
fn token_is_sent_only_over_tls_or_to_this_machine() {
    let new = |url: &str, token: Token| Prometheus::new(PrometheusAddress::parse(url).unwrap(), token, None).is_ok();
    for local in ["http://127.0.0.1:9090", "http://[::1]:9090", "http://localhost", "http://127.9.9.9"] {
        assert!(new(local, Token::Text("t".to_owned())), "{local}");
    }
    for remote in ["http://example.com", "http://10.0.0.1", "http://localhost.example.com", "http://127.0.0.1.nip.io"] {
        assert!(!new(remote, Token::Text("t".to_owned())), "{remote}");
        assert!(!new(remote, Token::File("t".into())), "{remote}");
        assert!(new(remote, Token::None), "{remote}");
    }
}

#[test]
fn refuses_addresses_with_credentials_or_more_than_a_path() {
    for (url, problem) in [
        ("", "is not a URL"),
        ("/path", "has no host"),
        ("example.com:9090", "must start with"),
        ("ftp://example.com", "must start with"),
        ("https://user:secret@example.com", "must not contain a user"),
        ("https://user@example.com", "must not contain a user"),
        ("https://example.com/?a=secret", "must not contain a query"),
        ("https://example.com/#a", "must not contain a query"),
    ] {
        let error = PrometheusAddress::parse(url).unwrap_err();
        assert!(error.starts_with(problem) && !error.contains("secret"), "{url}: {error}");
    }
    let query = |url: &str| PrometheusAddress::parse(url).unwrap().query.to_string();
    assert_eq!(query("https://example.com"), "https://example.com/api/v1/query");
    assert_eq!(query("https://example.com:1/a/b//"), "https://example.com:1/a/b/api/v1/query");
}

#[tokio::test]
async fn trusts_only_the_given_authority() {
    let identity = Identity::generate().unwrap();
    let other = Identity::generate().unwrap();
    let (router, seen) = router(|_| Some(Reply::vector(&[])));
    let options = Options { identity: Some(identity.clone()), ..Options::default() };
    let serving = serve::serve(router, options).await.unwrap();
    let address = PrometheusAddress::parse(&format!("https://{}", serving.address())).unwrap();
    let ask = async |pem: Option<&[u8]>| {
        Prometheus::new(address.clone(), Token::Text("secret".to_owned()), pem).unwrap().query("up").await
    };
    assert_eq!(ask(Some(identity.ca_pem().as_bytes())).await, Ok(Vec::new()));
    let why = ask(Some(other.ca_pem().as_bytes())).await.unwrap_err();
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(seen.lock().unwrap().len(), 1);
    for bad in ["", "no PEM", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        assert!(Prometheus::new(address.clone(), Token::None, Some(bad.as_bytes())).is_err(), "{bad}");
    }
}
