//! The page of finding codes, `docs/findings.md`: it is what the tables say, and the tables have every code that the sources
//! give to a finding. `UPDATE_DOCS=always cargo test --test findings` writes the page anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nodecfg::report::codes;
use walkdir::WalkDir;

#[test]
fn the_page_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    let page = codes::page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/findings.md is out of date: UPDATE_DOCS=always cargo test --test findings");
}

/// Codes between the quotes that follow a constructor of findings.
fn codes_in(text: &str) -> impl Iterator<Item = &str> {
    ["Finding::error(", "Finding::warning(", "Finding::note(", "unusable("].into_iter().flat_map(move |call| {
        text.split(call).skip(1).filter_map(move |rest| {
            // The code is the first argument, or for files that cannot be used the second.
            let rest = if call == "unusable(" { rest.split_once(',')?.1 } else { rest };
            let code = rest.trim_start().strip_prefix('"')?.split('"').next()?;
            (!code.contains(' ')).then_some(code)
        })
    })
}

#[test]
fn every_code_of_the_sources_is_told() {
    let mut used = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in ["src", "crates"].into_iter().flat_map(|folder| WalkDir::new(root.join(folder))) {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy();
        if entry.file_type().is_file() && name != "tests.rs" && !name.ends_with("_tests.rs") {
            let text = fs::read_to_string(entry.path()).unwrap();
            let sources = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            used.extend(codes_in(sources).map(str::to_owned));
        }
    }
    assert!(used.len() > 30, "{used:?}");
    let untold: Vec<&String> = used.iter().filter(|code| codes::lookup(code).is_none()).collect();
    assert!(untold.is_empty(), "data/findings.csv lacks {untold:?}");
}
