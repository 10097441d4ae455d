//! Prints each value of a YAML file with its place and what Go reads, and then the problems of the file. Without a file
//! it prints those of a short text.

#![allow(clippy::print_stdout)]

use std::error::Error;

use go_yaml::{Limits, Node, Value, parse};

const SAMPLE: &str = "enabled: on\nmode: 0o17\nlimit: 1e4\nnothing: ~\ntimes: [1:30, 'yes']\nenabled: off\n";

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args().nth(1) {
        Some(file) => std::fs::read_to_string(file)?,
        None => SAMPLE.to_owned(),
    };
    let parsed = parse(&text, &Limits::default());
    if let Some(root) = &parsed.root {
        print(root, "");
    }
    for problem in &parsed.problems {
        println!("{}:{}: {problem}", problem.span.line, problem.span.column);
    }
    Ok(())
}

/// Prints the scalars of a value, each with its path.
fn print(node: &Node, path: &str) {
    match &node.value {
        Value::Scalar(scalar) => {
            let (line, column) = (node.span.line, node.span.column);
            println!("{line}:{column}: {path} is {}, written {:?}", scalar.read().describe(), scalar.text);
        }
        Value::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                print(item, &format!("{path}[{index}]"));
            }
        }
        Value::Mapping(map) => {
            for (key, entry) in map {
                print(&entry.value, &format!("{path}.{key}"));
            }
        }
    }
}
