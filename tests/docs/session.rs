//! One document from its first block to its last.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use regex::Regex;

use crate::OPTIONAL;
use crate::document::{Block, Cluster, Document, Setting, Wish};
use crate::scratch::Scratch;

/// No block takes that long, on whatever machine; one that does hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the blocks of a document.
pub struct Session<'a> {
    document: &'a Document,
    setting: Setting,
    cluster: Cluster,
    scratch: Option<Scratch>,
    background: Vec<Child>,
    /// What the last block wrote, to both streams.
    written: String,
    /// The last block of commands was not run.
    skipped: bool,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<'a> Session<'a> {
    /// # Errors
    /// What went wrong, at which line.
    pub fn run(document: &'a Document) -> Result<(), String> {
        let mut session = Self {
            document,
            setting: Setting::Repository,
            cluster: Cluster::Like("1.36"),
            scratch: None,
            background: Vec::new(),
            written: String::new(),
            skipped: false,
        };
        let begin = Instant::now();
        let mut blocks = 0;
        for block in &document.blocks {
            session.prepare(block);
            let is_output = block.wishes.contains(&Wish::Output);
            if let Some(tool) = missing(block) {
                // Past the harness, which shows what a test prints only when it fails.
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

    /// What a block changes for those after it, even where it is not run.
    fn prepare(&mut self, block: &Block) {
        for wish in &block.wishes {
            match wish {
                Wish::Setting(setting) => (self.setting, self.cluster) = (*setting, Cluster::Like("1.36")),
                Wish::Cluster(cluster) => self.cluster = *cluster,
                _ => continue,
            }
            self.close();
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        for wish in &block.wishes {
            match wish {
                Wish::File(path) => self.file(path, &block.text),
                Wish::Output => self.compare(block)?,
                _ => {}
            }
        }
        if !block.is_shell() {
            return Ok(());
        }
        match block.wishes.iter().find_map(|wish| if let Wish::Background(file) = wish { Some(file) } else { None }) {
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

    /// The shell that runs a block, and the file that it writes to.
    fn shell(&mut self, script: &str) -> (Command, std::path::PathBuf) {
        let scratch = self.scratch();
        let (file, log) = (scratch.place("block.sh"), scratch.place("block.log"));
        fs::write(&file, script).unwrap();
        let out = fs::File::create(&log).unwrap();
        let mut command = scratch.command("bash");
        command.args(["-euo", "pipefail"]).arg(file).stdout(out.try_clone().unwrap()).stderr(out);
        (command, log)
    }

    fn start(&mut self, block: &Block, until: &str) -> Result<(), String> {
        // In the place of the shell, so that a signal reaches it; as of another terminal that was opened here.
        let scratch = self.scratch();
        let (file, log) = (scratch.place(&format!("{}.sh", block.line)), scratch.place(&format!("{}.log", block.line)));
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
            .wishes
            .iter()
            .find_map(|wish| if let Wish::Exit(codes) = wish { Some(codes.clone()) } else { None })
            .unwrap_or_default();
        let scratch = self.scratch();
        let seen = scratch.place("seen");
        fs::write(&seen, "").unwrap();
        let script = format!("{}{}{}", prelude(scratch), tolerance(scratch, &expected), block.text);
        let (mut command, log) = self.shell(&script);
        let mut child = command.spawn().unwrap();
        let begin = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed() > LIMIT => {
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

    /// Holds what a document shows against what its commands wrote.
    fn compare(&self, block: &Block) -> Result<(), String> {
        let written: Vec<String> = self.written.lines().map(steady).collect();
        let missing: Vec<&str> = block
            .text
            .lines()
            .filter(|line| !matches!(line.trim(), "" | "…"))
            .filter(|line| {
                let parts: Vec<String> = steady(line).split('…').map(regex::escape).collect();
                let shape = Regex::new(&format!("^{}$", parts.join(".*"))).unwrap();
                !written.iter().any(|line| shape.is_match(line))
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let wrong = format!("these lines were not written by the commands before it:\n{}", missing.join("\n"));
        Err(self.failure(block, &wrong, &self.written))
    }

    fn failure(&self, block: &Block, wrong: &str, written: &str) -> String {
        let Document { file, .. } = self.document;
        format!("{file}:{}: {wrong}\n--- block\n{}--- written\n{written}---", block.line, block.text)
    }
}

/// Goes on where the last block was, and remembers where this one ends.
fn prelude(scratch: &Scratch) -> String {
    let (variables, folder) = (scratch.place("variables"), scratch.place("folder"));
    let (variables, folder) = (variables.display(), folder.display());
    format!(
        "if [ -e '{variables}' ]; then . '{variables}'; cd \"$(cat '{folder}')\"; fi\n\
         trap 'export -p > {variables}; pwd > {folder}' EXIT\n"
    )
}

/// Goes on after commands that end with one of these codes, and notes which did.
fn tolerance(scratch: &Scratch, codes: &[i32]) -> String {
    if codes.is_empty() {
        return String::new();
    }
    let cases: Vec<String> = codes.iter().map(i32::to_string).collect();
    format!(
        "set +e -E\ntrap 'code=$?; case $code in {}) echo $code >> {};; *) exit $code;; esac' ERR\n",
        cases.join("|"),
        scratch.place("seen").display()
    )
}

/// A line without what differs from run to run.
fn steady(line: &str) -> String {
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

/// A program that a block needs, or one that it goes on from, and this machine does not have or shall do without.
fn missing(block: &Block) -> Option<&'static str> {
    if !block.is_shell() {
        return None;
    }
    let words =
        |tool: &str| block.text.split(|c: char| !(c.is_alphanumeric() || "-_./".contains(c))).any(|w| w == tool);
    let without = std::env::var("WITHOUT").unwrap_or_default();
    let there = |tool: &str| {
        without.split(',').all(|other| other != tool)
            && std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|path| path.join(tool).is_file())
    };
    let needs = |tool: &str| words(tool) || block.wishes.contains(&Wish::Needs(tool.to_owned()));
    OPTIONAL.iter().copied().find(|tool| needs(tool) && !there(tool))
}

/// Waits until a file is there and has something in it.
///
/// # Errors
/// When the process that shall write it ends, or hangs.
pub fn wait_for(file: &Path, child: &mut Child) -> Result<(), String> {
    let begin = Instant::now();
    while !fs::metadata(file).is_ok_and(|file| file.len() > 0) {
        if let Some(status) = child.try_wait().unwrap() {
            return Err(format!("it ended ({status}), and {} is not there", file.display()));
        }
        if begin.elapsed() > LIMIT {
            return Err(format!("{} does not come", file.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Ends a process and those that it started, by its group.
pub fn end(child: &mut Child) {
    // Negative: the group, which each child leads.
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
