//! Runs a program and measures its cost: wall time, CPU time and peak memory.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Cost of a run. CPU time and memory are missing on systems other than Linux.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub status: ExitStatus,
    pub wall: Duration,
    /// Seconds of user and system time.
    pub cpu: Option<f64>,
    /// Peak resident memory in MB (10^6 bytes).
    pub peak: Option<f64>,
}

/// Clock ticks per second in /proc: 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Command that runs nodecfg with these arguments, without output.
pub fn nodecfg<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodecfg"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Cost {
    tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let mut child = command.spawn().expect("the program starts");
        let mut peak = None;
        loop {
            let seen = peak_of(&child);
            peak = seen.or(peak);
            // An ended process keeps its times until it is reaped, but no memory figures.
            if seen.is_none() && has_ended(&mut child, peak.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let wall = began.elapsed();
        let cpu = cpu_of(&child);
        let status = child.wait().expect("the program ends");
        Cost { status, wall, cpu, peak }
    })
    .await
    .expect("the program is watched")
}

/// Reports whether a process without memory figures has ended. Without /proc, polls the process.
fn has_ended(child: &mut Child, was_seen: bool) -> bool {
    was_seen || child.try_wait().is_ok_and(|status| status.is_some())
}

fn peak_of(child: &Child) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

fn cpu_of(child: &Child) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The process name before the fields may contain any character, including a closing parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Some(ticks.iter().sum::<f64>() / TICKS)
}

/// Formats a figure; a missing one is a dash.
pub fn shown(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"))
}
