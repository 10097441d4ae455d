//! Property tests of markdown reviews of any length and content.

use proptest::prelude::*;

use super::report;
use crate::report::document::markdown::{LEAST_CHARS, length, render};
use crate::review::{Base, Head, Review, Side, compare};
use kubelet_config::finding::Strictness;
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::draft;
use nodecfg_fleet::snapshot::Snapshot;

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn snapshot(pools: &[(String, Vec<String>)]) -> Snapshot {
    let files: Vec<(String, String)> = pools
        .iter()
        .map(|(name, values)| {
            let fields: Vec<String> = values.iter().map(|value| serde_json::to_string(value).unwrap()).collect();
            let fields: String = fields.iter().enumerate().map(|(at, value)| format!("  key{at}: {value}\n")).collect();
            let labels = if fields.is_empty() { String::new() } else { format!("kubeReserved:\n{fields}") };
            (format!("pools/{name}/kubelet.yaml"), format!("{HEADER}maxPods: {}\n{labels}", values.len()))
        })
        .collect();
    Snapshot::of_texts(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

fn review(old: &Snapshot, new: &Snapshot, name: &str) -> Review {
    let (was, becomes) = (draft(old, Strictness::Strict), draft(new, Strictness::Strict));
    let commit = CommitId::new("0123456789".repeat(4)).unwrap();
    let from = Side::Revision { name: Some(name.to_owned()), commit: commit.clone(), signer: None, uncommitted: None };
    let to = Side::Revision { name: Some(name.chars().rev().collect()), commit, signer: None, uncommitted: None };
    let base = Base { side: &from, desired: was.desired.as_ref(), snapshot: old, errors: &was.errors };
    compare(&base, &Head { side: &to, desired: &becomes.desired.unwrap(), snapshot: new })
}

/// Texts with meaning in markdown or HTML, or with more UTF-16 units than characters.
fn nasty() -> impl Strategy<Value = String> {
    let pieces = [
        "`",
        "``",
        "|",
        "\\",
        "\\|",
        "<b>",
        "</details>",
        "<details>",
        "<!--",
        "-->",
        "@octocat",
        "#12",
        "\n",
        "\r",
        "*",
        "_",
        "[x](y)",
        "😀",
        "é",
        "x",
        " ",
        "&amp;",
        "https://e.x/1",
        "www.e.x",
        "\u{2028}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
}

fn pools() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    let name = prop_oneof!["[a-z]{1,5}", "[a-z]{63}"];
    prop::collection::btree_map(name, prop::collection::vec(nasty(), 0..30), 0..20)
        .prop_map(|pools| pools.into_iter().collect())
}

/// The number of pipes that separate cells.
fn borders(line: &str) -> usize {
    let mut escaped = false;
    line.chars()
        .filter(|c| {
            let border = *c == '|' && !escaped;
            escaped = *c == '\\';
            border
        })
        .count()
}

/// The text without code spans, in which nothing is markup.
fn without_code(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('`') {
        let (before, after) = rest.split_at(at);
        let fence = after.len() - after.trim_start_matches('`').len();
        let escaped = before.ends_with('\\');
        shown.push_str(before);
        let body = &after[fence..];
        let runs: Vec<(usize, usize)> = {
            let (mut runs, mut at) = (Vec::new(), 0);
            while let Some(start) = body[at..].find('`').map(|start| start + at) {
                let length = body[start..].len() - body[start..].trim_start_matches('`').len();
                runs.push((start, length));
                at = start + length;
            }
            runs
        };
        match runs.iter().find(|(_, length)| *length == fence).filter(|_| !escaped) {
            Some((start, length)) => rest = &body[start + length..],
            None => {
                shown.push_str(&after[..fence]);
                rest = body;
            }
        }
    }
    shown + rest
}

/// Asserts that the markup is complete, and that repository content is no markup.
fn assert_sound(text: &str) {
    let mut open = 0_i32;
    let mut columns = 0;
    for line in text.lines() {
        let plain = without_code(line);
        open += i32::try_from(plain.matches("<details>").count()).unwrap();
        open -= i32::try_from(plain.matches("</details>").count()).unwrap();
        assert!((0..=1).contains(&open), "{line}");
        let tags = ["<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>", "<sub>", "</sub>"];
        let bare = tags.iter().fold(plain.clone(), |text, tag| text.replace(tag, ""));
        assert!(!bare.contains('<') && !bare.contains("octocat"), "{line}");
        assert!(!bare.contains("www."), "{line}");
        if line.starts_with('|') {
            assert!(columns == 0 || columns == borders(line), "{line}");
            columns = borders(line);
        } else {
            columns = 0;
        }
    }
    assert_eq!(open, 0, "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn respects_the_limit_and_stays_valid(old in pools(), new in pools(), name in nasty(), most in 2000_usize..40_000) {
        let (old, new) = (snapshot(&old), snapshot(&new));
        prop_assume!(draft(&new, Strictness::Strict).desired.is_some());
        let review = review(&old, &new, &name);
        let report = report("diff", &review);
        let whole = render(&report, false, None);
        assert_sound(&whole);
        let kept = render(&report, false, Some(most));
        prop_assert!(length(&kept) <= most, "{} > {most}\n{kept}", length(&kept));
        assert_sound(&kept);
        prop_assert_eq!(&kept, &render(&report, false, Some(most)));
        if length(&whole) <= most {
            prop_assert_eq!(&kept, &whole);
        } else {
            prop_assert!(kept.contains("**Shortened**, without "), "{kept}");
        }
        let verdict = whole.lines().next().unwrap();
        prop_assert_eq!(kept.lines().next().unwrap(), verdict);
    }
}

/// A comment on a pull request to a large fleet shows the change.
#[test]
fn unchanged_pools_do_not_displace_the_changed_one() {
    let pool = |value: &str| ("changed".to_owned(), vec![value.to_owned()]);
    let same = (0..1000).map(|number| (format!("p{number}"), Vec::new()));
    let all = |value| same.clone().chain([pool(value)]).collect::<Vec<_>>();
    let report = report("diff", &review(&snapshot(&all("a")), &snapshot(&all("b")), "main"));
    let kept = render(&report, false, Some(10_000));
    assert!(length(&kept) <= 10_000 && kept.contains("<b>changed</b>"), "{kept}");
    assert!(kept.contains("1000 pools, unchanged"), "{kept}");
}

#[test]
fn smallest_limit_is_as_documented() {
    assert_eq!(LEAST_CHARS, 2000);
}

#[test]
fn keeps_the_riskiest_pool_longest() {
    let many = |value: &str| (0..12).map(|at| format!("{value}{at}")).collect::<Vec<_>>();
    let old = snapshot(&[("harmless".to_owned(), Vec::new()), ("risky".to_owned(), many("a"))]);
    let new = snapshot(&[
        ("harmless".to_owned(), Vec::new()),
        ("new".to_owned(), many("x")),
        ("risky".to_owned(), many("b")),
    ]);
    let review = review(&old, &new, "main");
    let report = report("diff", &review);
    let whole = length(&render(&report, false, None));
    let mut alone = None;
    for most in (usize::try_from(LEAST_CHARS).unwrap()..whole).rev().step_by(20) {
        let kept = render(&report, false, Some(most));
        let (risky, new) = (kept.contains("<b>risky</b>"), kept.contains("<b>new</b>"));
        assert!(risky || !new, "{kept}");
        if risky && !new {
            alone = Some(kept);
        }
    }
    let kept = alone.unwrap();
    assert!(kept.contains("**Shortened**, without the details of 1 pool (`new`)"), "{kept}");
    assert!(kept.contains("See all with `nodecfg diff --against 0123456789`."), "{kept}");
}
