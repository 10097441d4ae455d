//! Simulated runner of a job that uses the action.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Once};
use std::time::Duration;

use serde_json::{Value, json};

use crate::action::expression::Context;
use crate::action::github::{Github, TOKEN};
use crate::action::workspace::Workspace;

/// Content of action.yml.
pub static ACTION: LazyLock<Value> = LazyLock::new(|| {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
});

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reports whether the runner's tools are installed, and prints a note if not.
pub fn possible() -> bool {
    let missing: Vec<&str> = ["bash", "jq", "curl", "git", "tar"]
        .into_iter()
        .filter(|tool| Command::new(tool).arg("--version").output().is_err())
        .collect();
    if !missing.is_empty() {
        static SKIPPED: Once = Once::new();
        // Bypasses the test runner, which prints output only for failed tests.
        let line = format!("skipped: no {} on the PATH: the action does not run", missing.join(", "));
        SKIPPED.call_once(|| drop(writeln!(std::io::stderr(), "{line}")));
    }
    missing.is_empty()
}

/// A job with one use of the action.
pub struct Job {
    home: tempfile::TempDir,
    workspace: PathBuf,
    github: String,
    event: (String, Value),
    inputs: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    cancelled: Option<PathBuf>,
}

/// Result of one step.
pub struct Step {
    pub name: String,
    pub failed: bool,
    pub log: String,
}

/// Result of a job.
pub struct Outcome {
    /// Steps that ran.
    pub steps: Vec<Step>,
    pub outputs: BTreeMap<String, String>,
    pub summary: String,
    /// Workflow commands that the runner executed: `error file=…::text`, with escapes.
    pub commands: Vec<String>,
    home: tempfile::TempDir,
}

impl Outcome {
    pub fn failed(&self) -> Option<&str> {
        self.steps.iter().find(|step| step.failed).map(|step| step.name.as_str())
    }

    pub fn log(&self) -> String {
        self.steps.iter().map(|step| format!("== {}\n{}", step.name, step.log)).collect()
    }

    #[track_caller]
    pub fn passed(&self) -> &Self {
        assert_eq!(self.failed(), None, "{}", self.log());
        self
    }

    /// Asserts that the job failed in `step`, with an annotation that contains `saying`.
    #[track_caller]
    pub fn failed_in(&self, step: &str, saying: &str) -> &Self {
        assert_eq!(self.failed(), Some(step), "{}", self.log());
        let errors = self.commands.iter().filter(|command| command.starts_with("error "));
        assert!(errors.into_iter().any(|error| error.contains(saying)), "{saying}: {:#?}", self.commands);
        self
    }

    pub fn output(&self, name: &str) -> &str {
        self.outputs.get(name).map_or_else(|| panic!("no output {name}"), String::as_str)
    }

    /// Remaining files with this name.
    pub fn left(&self, name: &str) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.home.path().join("temp")).unwrap().map(|entry| entry.unwrap().path());
        folders.map(|folder| folder.join(name)).filter(|path| path.exists()).collect()
    }
}

/// Parses `NAME=VALUE` and `NAME<<END … END`, the format of GITHUB_OUTPUT and GITHUB_ENV.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some((name, end)) = line.split_once("<<") {
            let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            pairs.push((name.to_owned(), value.join("\n")));
        } else {
            let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("no output: {line}"));
            pairs.push((name.to_owned(), value.to_owned()));
        }
    }
    pairs
}

/// Commands in a log that the runner executes: `::name …::` at the start of a line and the older `##[name]` anywhere,
/// but none after stop-commands until its token.
fn commands(log: &str) -> Vec<String> {
    let mut obeyed = Vec::new();
    let mut resume: Option<String> = None;
    for line in log.lines() {
        if let Some(word) = &resume {
            if line.trim_start().starts_with(&format!("::{word}::")) {
                resume = None;
            }
        } else if let Some(word) = line.strip_prefix("::stop-commands::") {
            resume = Some(word.to_owned());
        } else if let Some(command) = line.trim_start().strip_prefix("::") {
            obeyed.push(command.to_owned());
        } else if let Some((_, command)) = line.split_once("##[") {
            obeyed.push(command.to_owned());
        }
    }
    assert_eq!(resume, None, "commands stay stopped:\n{log}");
    obeyed
}

impl Job {
    fn new(name: &str, event: Value, workspace: &Workspace, github: &Github) -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["temp", "files", "stand-ins", "_actions/example/nodecfg"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root(), home.path().join("_actions/example/nodecfg/v0.1.0")).unwrap();
        Self {
            home,
            workspace: workspace.path().to_owned(),
            github: github.url(),
            event: (name.to_owned(), event),
            inputs: BTreeMap::new(),
            variables: BTreeMap::new(),
            cancelled: None,
        }
    }

    /// Creates a job for pull request 7 from a branch of `head`.
    pub fn pull_request(head: &str, workspace: &Workspace, github: &Github) -> Self {
        let commits = workspace.commits();
        let branch = commits.get(2).cloned().unwrap_or_else(|| "b".repeat(40));
        let event = json!({"pull_request": {
            "number": 7,
            "head": {"repo": {"full_name": head}, "sha": branch},
            "base": {"repo": {"full_name": "acme/fleet"}},
        }});
        Self::new("pull_request", event, workspace, github)
    }

    /// Creates a job for a push to the main branch.
    pub fn push(workspace: &Workspace, github: &Github) -> Self {
        Self::new("push", json!({"ref": "refs/heads/main"}), workspace, github)
    }

    /// Sets the newest commit of the pull request's branch in the event.
    pub fn head(mut self, commit: &str) -> Self {
        self.event.1["pull_request"]["head"]["sha"] = json!(commit);
        self
    }

    /// Sets an input, as under `with:`.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        assert!(ACTION["inputs"][name].is_object(), "no input {name}");
        self.inputs.insert(name.to_owned(), value.into());
        self
    }

    /// Sets a variable, as under the job's `env:`.
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Cancels the job once this file exists, with a SIGINT to the process of the step only.
    pub fn cancelled_at(mut self, file: PathBuf) -> Self {
        self.cancelled = Some(file);
        self
    }

    /// Adds a program that precedes others with its name in the PATH.
    pub fn program(self, name: &str, script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.path().join("stand-ins").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Uses the action from a folder of the workspace, `uses: ./…`.
    pub fn local(self) -> Self {
        self.variable("GITHUB_ACTION_PATH", root().to_str().unwrap())
    }

    pub fn run(self) -> Outcome {
        let mut context = Context { success: true, ..Context::default() };
        context.values.insert("github.token".to_owned(), TOKEN.to_owned());
        for (name, input) in ACTION["inputs"].as_object().unwrap() {
            let default = context.fill(input["default"].as_str().unwrap_or_else(|| panic!("{name} has no default")));
            // As in the runner, the default applies to missing inputs, not to empty ones.
            let value = self.inputs.get(name).cloned().unwrap_or(default);
            context.values.insert(format!("inputs.{name}"), value);
        }
        let (mut steps, mut all, mut summary) = (Vec::new(), Vec::new(), String::new());
        for step in ACTION["runs"]["steps"].as_array().unwrap() {
            if context.allows(step["if"].as_str()) {
                let ran = self.step(step, &mut context, &mut summary);
                all.extend(commands(&ran.log));
                context.success &= !ran.failed;
                steps.push(ran);
            }
            context.steps.extend(step["id"].as_str().map(str::to_owned));
        }
        let outputs = ACTION["outputs"].as_object().unwrap().iter();
        let outputs = outputs.map(|(name, output)| (name.clone(), context.fill(output["value"].as_str().unwrap())));
        Outcome { steps, outputs: outputs.collect(), summary, commands: all, home: self.home }
    }

    fn step(&self, step: &Value, context: &mut Context, summary: &mut String) -> Step {
        let name = step["name"].as_str().unwrap().to_owned();
        assert_eq!(step["shell"], "bash", "{name}");
        let home = self.home.path();
        let file = |name: &str| {
            let path = home.join("files").join(name);
            File::create(&path).unwrap();
            path
        };
        let script = file("script.sh");
        fs::write(&script, step["run"].as_str().unwrap()).unwrap();
        let event = file("event.json");
        fs::write(&event, self.event.1.to_string()).unwrap();
        let (output, environment, page) = (file("output"), file("env"), file("summary"));
        let log = file("log");
        let out = File::options().append(true).open(&log).unwrap();

        let path = format!("{}:{}", home.join("stand-ins").display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("env");
        if self.cancelled.is_some() {
            // bash cannot trap a signal that was ignored at its start, like SIGINT in background jobs of a shell.
            bash.arg("--default-signal=INT,TERM");
        }
        bash.args(["bash", "--noprofile", "--norc", "-eo", "pipefail"])
            .arg(&script)
            .current_dir(&self.workspace)
            .env_clear();
        bash.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        bash.envs([
            ("PATH", path.as_str()),
            ("CI", "true"),
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_REPOSITORY", "acme/fleet"),
            ("GITHUB_RUN_ID", "4711"),
            ("GITHUB_EVENT_NAME", &self.event.0),
            ("GITHUB_SERVER_URL", &self.github),
            ("GITHUB_API_URL", &format!("{}/api", self.github)),
        ]);
        bash.envs([
            ("HOME", home.join("home")),
            ("RUNNER_TEMP", home.join("temp")),
            ("GITHUB_WORKSPACE", self.workspace.clone()),
            ("GITHUB_ACTION_PATH", home.join("_actions/example/nodecfg/v0.1.0")),
            ("GITHUB_EVENT_PATH", event),
            ("GITHUB_OUTPUT", output.clone()),
            ("GITHUB_ENV", environment.clone()),
            ("GITHUB_STEP_SUMMARY", page.clone()),
        ]);
        bash.envs(&self.variables);
        for (variable, value) in step["env"].as_object().into_iter().flatten() {
            bash.env(variable, context.fill(value.as_str().unwrap()));
        }
        let mut process = bash.spawn().unwrap();
        let status = loop {
            if let Some(status) = process.try_wait().unwrap() {
                break status;
            }
            if self.cancelled.as_ref().is_some_and(|file| file.exists()) && !context.cancelled {
                context.cancelled = true;
                let interrupt = format!("kill -INT {}", process.id());
                assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
            }
            std::thread::sleep(Duration::from_millis(5));
        };

        assert_eq!(
            fs::read_to_string(&environment).unwrap(),
            "",
            "{name}: a step must not change later ones of the user"
        );
        let page = fs::read_to_string(&page).unwrap();
        assert!(page.len() <= 1024 * 1024, "{name}: the runner drops a summary of {} bytes", page.len());
        summary.push_str(&page);
        if let Some(id) = step["id"].as_str() {
            for (output, value) in pairs(&fs::read_to_string(&output).unwrap()) {
                context.values.insert(format!("steps.{id}.outputs.{output}"), value);
            }
        }
        // Repository content in nodecfg's output may have any encoding.
        let log = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
        assert!(!log.contains(TOKEN), "{name}: the token is in the log");
        Step { name, failed: !status.success(), log }
    }
}
