//! Figures of the benchmarks, printed beside their goals and the baseline.
//!
//! `goals.txt` names each figure with its unit and its goal, `baseline.txt` has the figures of an earlier run. With
//! `SAVE_BASELINE=1` a run replaces those that it measured.

#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Separator of the columns.
const COLUMN: char = '|';
/// Variable that saves the measured figures as the baseline.
const SAVE: &str = "SAVE_BASELINE";

/// A figure that the benchmarks measure.
#[derive(Debug, Clone, PartialEq)]
struct Goal {
    figure: String,
    unit: String,
    at_most: Option<f64>,
}

/// Measured figures of this run.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Notes a measured figure that `goals.txt` names.
    pub fn note(&mut self, figure: &str, value: f64) {
        if !goals().iter().any(|goal| goal.figure == figure) {
            println!("benches/goals.txt has no line {figure:?}");
        } else if value.is_finite() {
            self.0.insert(figure.to_owned(), value);
        }
    }

    /// Prints the table, and saves the figures if the environment asks for it.
    pub fn finish(self) {
        let baseline = read(&baseline_path());
        print!("\n{}", table(&goals(), &self.0, &baseline));
        if env::var_os(SAVE).is_some_and(|value| !value.is_empty()) {
            let text = baseline_text(&goals(), &self.0, &fs::read_to_string(baseline_path()).unwrap_or_default());
            fs::write(baseline_path(), text).expect("the baseline can be written");
        }
    }
}

/// Figures that this program may measure, in the order of the file.
pub fn figures() -> Vec<String> {
    goals().into_iter().map(|goal| goal.figure).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches")
}

fn baseline_path() -> PathBuf {
    folder().join("baseline.txt")
}

/// Columns of each line that is no comment.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(COLUMN).map(str::trim).collect())
}

fn goals() -> Vec<Goal> {
    let text = fs::read_to_string(folder().join("goals.txt")).expect("benches/goals.txt is readable");
    let goal = |columns: Vec<&str>| {
        let [figure, unit, at_most] = columns.as_slice() else { panic!("not three columns: {columns:?}") };
        let at_most = (!at_most.is_empty()).then(|| at_most.parse().expect("a goal is a number"));
        Goal { figure: (*figure).to_owned(), unit: (*unit).to_owned(), at_most }
    };
    rows(&text).map(goal).collect()
}

fn read(path: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let figure = |columns: Vec<&str>| {
        let value = columns.get(1).and_then(|value| value.split(' ').next()?.parse().ok());
        Some(((*columns.first()?).to_owned(), value?))
    };
    rows(&text).filter_map(figure).collect()
}

/// The measured figures with goal, baseline and difference. A missed goal is named in words.
fn table(goals: &[Goal], measured: &BTreeMap<String, f64>, baseline: &BTreeMap<String, f64>) -> String {
    let width = measured.keys().map(|figure| figure.len()).max().unwrap_or_default().max("figure".len());
    let mut text = format!("{:<width$} {:>9} {:>9} {:>9} {:>7}\n", "figure", "measured", "goal", "baseline", "change");
    for goal in goals {
        let Some(&value) = measured.get(&goal.figure) else { continue };
        let before = baseline.get(&goal.figure).copied();
        let change = before.filter(|before| *before > 0.0).map(|before| (value / before - 1.0) * 100.0);
        let _ = writeln!(
            text,
            "{:<width$} {:>9} {:>9} {:>9} {:>7} {}{}",
            goal.figure,
            rounded(value),
            goal.at_most.map(rounded).unwrap_or_default(),
            before.map(rounded).unwrap_or_default(),
            change.map(|change| format!("{change:+.0}%")).unwrap_or_default(),
            goal.unit,
            if goal.at_most.is_some_and(|at_most| value > at_most) { ", goal missed" } else { "" },
        );
    }
    text
}

/// The file of a baseline: the measured figures, and the others of an earlier file of the same machine.
fn baseline_text(goals: &[Goal], measured: &BTreeMap<String, f64>, earlier: &str) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let machine =
        format!("# Saved with {SAVE}=1 on {cores} cores of {}.", model.map_or("an unknown processor", str::trim));
    let today = nodecfg_clock::now().strftime("%Y-%m-%d").to_string();
    let is_same = earlier.lines().next() == Some(machine.as_str());
    let kept: BTreeMap<&str, Vec<&str>> =
        rows(earlier).filter(|_| is_same).filter_map(|columns| Some((*columns.first()?, columns))).collect();
    let mut text = machine + "\n";
    for goal in goals {
        if let Some(value) = measured.get(&goal.figure) {
            let _ = writeln!(text, "{} {COLUMN} {} {} {COLUMN} {today}", goal.figure, rounded(*value), goal.unit);
        } else if let Some(columns) = kept.get(goal.figure.as_str()) {
            let _ = writeln!(text, "{}", columns.join(" | "));
        }
    }
    text
}

/// Three significant digits.
fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        value if value >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}
