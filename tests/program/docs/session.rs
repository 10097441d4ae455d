//! Execution of the blocks of one document.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use regex::Regex;

use crate::docs::OPTIONAL;
use crate::docs::document::{Block, Cluster, Directive, Document, Setting};
use crate::docs::scratch::Scratch;

/// Timeout of a block. A block that exceeds it hangs.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the blocks of a document.
pub struct Session<'a> {
    document: &'a Document,
    setting: Setting,
    cluster: Cluster,
    scratch: Option<Scratch>,
    background: Vec<Child>,
    /// Output of the last block, from both streams.
    written: String,
    /// Whether the last block of commands was skipped.
    skipped: bool,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<'a> Session<'a> {
    /// Runs the blocks of a document.
    ///
    /// # Errors
    /// The failure, with the line of its block.
    pub fn run(document: &'a Document) -> Result<(), String> {
        let mut session = Self {
            document,
            setting: Setting::Repository,
            cluster: Cluster::Version("1.36"),
            scratch: None,
            background: Vec::new(),
            written: String::new(),
            skipped: false,
        };
        let begin = Instant::now();
        let mut blocks = 0;
        for block in &document.blocks {
            session.prepare(block);
            let is_output = block.directives.contains(&Directive::Output);
            if let Some(tool) = missing(block) {
                // Written to standard error directly, because the harness hides the output of passing tests.
                let _ = writeln!(std::io::stderr(), "skipped: {}:{}: no {tool} on the PATH", document.file, block.line);
                session.skipped = true;
            } else if !(is_output && session.skipped) {
                session.block(block)?;
                blocks += usize::from(block.is_shell());
                session.skipped &= !block.is_shell();
            }
        }
        if blocks > 0 {
            eprintln!("{}: {blocks} blocks in {:.1} s", document.file, begin.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Applies directives that affect later blocks, even if this one is skipped.
    fn prepare(&mut self, block: &Block) {
        for directive in &block.directives {
            match directive {
                Directive::Setting(setting) => (self.setting, self.cluster) = (*setting, Cluster::Version("1.36")),
                Directive::Cluster(cluster) => self.cluster = *cluster,
                _ => continue,
            }
            self.close();
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        for directive in &block.directives {
            match directive {
                Directive::File(path) => self.file(path, &block.text),
                Directive::Output => self.compare(block)?,
                _ => {}
            }
        }
        if !block.is_shell() {
            return Ok(());
        }
        match block
            .directives
            .iter()
            .find_map(|directive| if let Directive::Background(file) = directive { Some(file) } else { None })
        {
            Some(file) => self.start(block, file),
            None => self.execute(block),
        }
    }

    fn close(&mut self) {
        for mut child in self.background.drain(..) {
            end(&mut child);
        }
        self.scratch = None;
    }

    fn scratch(&mut self) -> &Scratch {
        self.scratch.get_or_insert_with(|| Scratch::prepare(self.setting, self.cluster))
    }

    fn file(&mut self, path: &str, text: &str) {
        let path = self.scratch().folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The shell that runs a block, and its log file.
    fn shell(&mut self, script: &str) -> (Command, std::path::PathBuf) {
        let scratch = self.scratch();
        let (file, log) = (scratch.path_of("block.sh"), scratch.path_of("block.log"));
        fs::write(&file, script).unwrap();
        let out = fs::File::create(&log).unwrap();
        let mut command = scratch.command("bash");
        command.args(["-euo", "pipefail"]).arg(file).stdout(out.try_clone().unwrap()).stderr(out);
        (command, log)
    }

    fn start(&mut self, block: &Block, until: &str) -> Result<(), String> {
        // Runs in its own process group, so that a signal reaches it, as in a separate terminal.
        let scratch = self.scratch();
        let (file, log) =
            (scratch.path_of(&format!("{}.sh", block.line)), scratch.path_of(&format!("{}.log", block.line)));
        let awaited = scratch.folder().join(until);
        fs::write(&file, format!("{}{}", prelude(scratch), block.text)).unwrap();
        let out = fs::File::create(&log).unwrap();
        let mut child = scratch
            .command("bash")
            .args(["-euo", "pipefail"])
            .arg(file)
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .process_group(0)
            .spawn()
            .unwrap();
        let result = wait_for(&awaited, &mut child);
        self.background.push(child);
        result.map_err(|error| self.failure(block, &error, &fs::read_to_string(log).unwrap_or_default()))
    }

    fn execute(&mut self, block: &Block) -> Result<(), String> {
        let expected: Vec<i32> = block
            .directives
            .iter()
            .find_map(|directive| if let Directive::Exit(codes) = directive { Some(codes.clone()) } else { None })
            .unwrap_or_default();
        let scratch = self.scratch();
        let seen = scratch.path_of("seen");
        fs::write(&seen, "").unwrap();
        let script = format!("{}{}{}", prelude(scratch), allow_exit_codes(scratch, &expected), block.text);
        let (mut command, log) = self.shell(&script);
        let mut child = command.spawn().unwrap();
        let begin = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed() > BLOCK_TIMEOUT => {
                    end(&mut child);
                    return Err(self.failure(block, "it does not end", &fs::read_to_string(log).unwrap()));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.written = fs::read_to_string(log).unwrap();
        let seen = fs::read_to_string(seen).unwrap();
        let seen: Vec<i32> = seen.lines().map(|line| line.parse().unwrap()).collect();
        let wrong = match status.code() {
            Some(code) if code == 0 || expected.contains(&code) => {
                let unseen: Vec<&i32> = expected.iter().filter(|code| !seen.contains(code)).collect();
                if unseen.is_empty() { None } else { Some(format!("no command ended with {unseen:?}")) }
            }
            Some(code) => Some(format!("a command ended with {code}")),
            None => Some(status.to_string()),
        };
        wrong.map_or(Ok(()), |wrong| Err(self.failure(block, &wrong, &self.written)))
    }

    /// Compares the output in a document with the output of its commands.
    fn compare(&self, block: &Block) -> Result<(), String> {
        let written: Vec<String> = self.written.lines().map(normalize).collect();
        let missing: Vec<&str> = block
            .text
            .lines()
            .filter(|line| !matches!(line.trim(), "" | "…"))
            .filter(|line| {
                let parts: Vec<String> = normalize(line).split('…').map(regex::escape).collect();
                let shape = Regex::new(&format!("^{}$", parts.join(".*"))).unwrap();
                !written.iter().any(|line| shape.is_match(line))
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let wrong = format!("the preceding commands did not print these lines:\n{}", missing.join("\n"));
        Err(self.failure(block, &wrong, &self.written))
    }

    fn failure(&self, block: &Block, wrong: &str, written: &str) -> String {
        let Document { file, .. } = self.document;
        format!("{file}:{}: {wrong}\n--- block\n{}--- written\n{written}---", block.line, block.text)
    }
}

/// Restores variables and folder of the last block, and saves them on exit.
fn prelude(scratch: &Scratch) -> String {
    let (variables, folder) = (scratch.path_of("variables"), scratch.path_of("folder"));
    let (variables, folder) = (variables.display(), folder.display());
    format!(
        "if [ -e '{variables}' ]; then . '{variables}'; cd \"$(cat '{folder}')\"; fi\n\
         trap 'export -p > {variables}; pwd > {folder}' EXIT\n"
    )
}

/// Continues after commands that exit with one of these codes, and records the codes.
fn allow_exit_codes(scratch: &Scratch, codes: &[i32]) -> String {
    if codes.is_empty() {
        return String::new();
    }
    let cases: Vec<String> = codes.iter().map(i32::to_string).collect();
    format!(
        "set +e -E\ntrap 'code=$?; case $code in {}) echo $code >> {};; *) exit $code;; esac' ERR\n",
        cases.join("|"),
        scratch.path_of("seen").display()
    )
}

/// The line without parts that differ between runs.
fn normalize(line: &str) -> String {
    let volatile = [
        (r"\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b", "#s"),
        (r" +\d+\.\d$", " #"),
        (r"p1:[0-9a-f…]+", "p1:#"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:#"),
        (r"^ +#s", "#s"),
        (r"\s+$", ""),
    ];
    volatile.iter().fold(line.to_owned(), |line, (pattern, name)| {
        Regex::new(pattern).unwrap().replace_all(&line, *name).into_owned()
    })
}

/// The program that a block needs but that is missing or excluded.
fn missing(block: &Block) -> Option<&'static str> {
    if !block.is_shell() {
        return None;
    }
    let words =
        |tool: &str| block.text.split(|c: char| !(c.is_alphanumeric() || "-_./".contains(c))).any(|w| w == tool);
    let without = std::env::var("WITHOUT").unwrap_or_default();
    let is_installed = |tool: &str| {
        without.split(',').all(|other| other != tool)
            && std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|path| path.join(tool).is_file())
    };
    let needs = |tool: &str| words(tool) || block.directives.contains(&Directive::Needs(tool.to_owned()));
    OPTIONAL.iter().copied().find(|tool| needs(tool) && !is_installed(tool))
}

/// Waits until a file exists and is not empty.
///
/// # Errors
/// The process that writes the file exits or hangs.
pub fn wait_for(file: &Path, child: &mut Child) -> Result<(), String> {
    let begin = Instant::now();
    while !fs::metadata(file).is_ok_and(|file| file.len() > 0) {
        if let Some(status) = child.try_wait().unwrap() {
            return Err(format!("the process exited ({status}) without creating {}", file.display()));
        }
        if begin.elapsed() > BLOCK_TIMEOUT {
            return Err(format!("{} was not created in time", file.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Terminates a process and its children, by their group.
pub fn end(child: &mut Child) {
    // A negative id names the process group of the child.
    let group = child.id();
    let signal = |name: &str| Command::new("sh").args(["-c", &format!("kill -s {name} -- -{group}")]).status();
    let _ = signal("TERM");
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begin.elapsed() > Duration::from_secs(20) {
            let _ = signal("KILL");
            let _ = child.wait();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
