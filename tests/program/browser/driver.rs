//! Headless Chromium, controlled by chromedriver.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use nodecfg::report::document::Report;
use nodecfg::report::document::html::write;
use serde_json::{Value, json};

/// A browser with one page. Its files are deleted when dropped.
pub struct Browser {
    pub client: Client,
    driver: Child,
    folder: tempfile::TempDir,
}

/// Reports whether Chromium and chromedriver are installed, and prints a note if not.
fn is_installed() -> bool {
    let missing: Vec<&str> = ["chromedriver", "chromium"].into_iter().filter(|program| !is_on_path(program)).collect();
    for program in &missing {
        // Bypasses the test runner, which prints output only for failed tests.
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not on the PATH");
    }
    missing.is_empty()
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a test in a browser with the page, if a browser is installed.
pub fn with<F: AsyncFnOnce(&Browser)>(page: &Report, test: F) {
    if !is_installed() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let browser = Browser::start().await;
        let file = browser.folder.path().join("page.html");
        let mut bytes = Vec::new();
        write(&mut bytes, page, jiff::Timestamp::UNIX_EPOCH).unwrap();
        std::fs::write(&file, bytes).unwrap();
        browser.open(&file).await;
        test(&browser).await;
        browser.client.clone().close().await.unwrap();
    });
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines
            .find_map(|line| {
                line.split_once("successfully on port ").map(|(_, port)| port.trim_matches('.').to_owned())
            })
            .expect("chromedriver says its port");
        // Continues reading, so that chromedriver does not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            &profile,
        ];
        let capabilities = json!({
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("chromedriver starts Chromium");
        Self { client, driver, folder }
    }

    async fn open(&self, file: &Path) {
        self.client.goto(&format!("file://{}", file.display())).await.unwrap();
    }

    /// Runs a script in the page and returns its result.
    pub async fn eval(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Sends a command of the Chrome DevTools Protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) {
        self.post("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await;
    }

    /// Sets the preferred color scheme.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Returns console messages since the last call.
    pub async fn console(&self) -> Value {
        self.post("se/log", json!({"type": "browser"})).await
    }

    /// Role and name in the accessibility tree.
    pub async fn role_and_name(&self, element: &Element) -> (String, String) {
        let property = async |what: &str| {
            let path = format!("element/{}/computed{what}", &*element.element_id());
            let answer = self.client.issue_cmd(Endpoint { path, body: None }).await.unwrap();
            answer.as_str().unwrap().to_owned()
        };
        (property("role").await, property("label").await)
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.client.issue_cmd(Endpoint { path: path.to_owned(), body: Some(body) }).await.unwrap()
    }
}

/// A WebDriver endpoint that the client does not implement.
#[derive(Debug)]
struct Endpoint {
    path: String,
    body: Option<Value>,
}

impl WebDriverCompatibleCommand for Endpoint {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        match &self.body {
            Some(body) => (http::Method::POST, Some(body.to_string())),
            None => (http::Method::GET, None),
        }
    }
}
