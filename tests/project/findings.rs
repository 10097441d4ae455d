//! Tests of `docs/reference/findings.md`: the page equals the tables, and the tables have every code of
//! the sources. `UPDATE_DOCS=always cargo test --test project findings` regenerates the page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nodecfg::report::codes;
use walkdir::WalkDir;

#[test]
fn page_equals_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/findings.md");
    let page = codes::page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{}: out of date, run UPDATE_DOCS=always cargo test --test project findings",
        path.display()
    );
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

/// Texts of the sources without tests.
fn sources() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for entry in ["src", "crates"].into_iter().flat_map(|folder| WalkDir::new(root.join(folder))) {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy();
        let is_test =
            name == "tests.rs" || name.ends_with("_tests.rs") || entry.path().iter().any(|part| part == "tests");
        if name.ends_with(".rs") && !is_test {
            let text = fs::read_to_string(entry.path()).unwrap();
            texts.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
        }
    }
    texts
}

#[test]
fn tables_have_exactly_the_codes_of_sources() {
    let sources = sources();
    let used: BTreeSet<&str> = sources.iter().flat_map(|text| codes_in(text)).collect();
    assert!(used.len() > 50, "{used:?}");
    let missing: Vec<&&str> = used.iter().filter(|code| codes::lookup(code).is_none()).collect();
    assert!(missing.is_empty(), "data/findings.csv lacks {missing:?}");
    // Codes that are no first argument, such as those of rules, are literals somewhere.
    let is_used = |code: &&str| sources.iter().any(|text| text.contains(&format!("\"{code}\"")));
    let unused: Vec<&str> = codes::all().filter(|code| !is_used(code)).collect();
    assert!(unused.is_empty(), "no source reports {unused:?}");
}

#[test]
fn reference_of_files_has_every_harmful_removal() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/repository.md")).unwrap();
    let table: Vec<&str> = page.lines().skip_while(|line| *line != "### Removed fields").collect();
    for removal in kubelet_config::risk::removals::all() {
        let (start, end) = (format!("| `{}`", removal.field), format!("| {} |", removal.consequence));
        assert!(table.iter().any(|line| line.starts_with(&start) && line.ends_with(&end)), "{}", removal.field);
    }
}
