//! Options that a sync must have in common with its saved plan.
//!
//! A sync takes no option from the file: a user who can edit the file must not be able to widen the sync.

use std::path::Path;

use super::planning::Allowances;
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::terminal::failure::CommandError;
use nodecfg_contract::printable::escaped;
use nodecfg_plan::saved::SavedOptions;

/// The options of the command line.
pub(crate) fn given(allowances: Allowances, repository: &RepositoryArgs, bound: &BoundClusterArgs) -> SavedOptions {
    SavedOptions {
        take_over: allowances.take_over,
        allow_empty: allowances.allow_empty,
        lenient: repository.revision.lenient,
        namespace: bound.cluster.named_namespace().cloned(),
        binding: bound.binding.named().map(str::to_owned),
    }
}

/// The command that carries out a plan with these options, made from these files for this cluster.
pub(crate) fn sync_command(
    path: &Path,
    options: &SavedOptions,
    repository: &RepositoryArgs,
    bound: &BoundClusterArgs,
) -> String {
    let plan = ["--plan".to_owned(), path.to_string_lossy().into_owned()];
    let words = ["sync".to_owned()].into_iter().chain(repository.arguments()).chain(plan);
    let words = words.chain(repository.revision.signers.arguments()).chain(bound.cluster.arguments());
    command(words.chain(options.arguments()))
}

/// Requires that the command line has exactly the options of the plan. `words` are its arguments, which the fix
/// repeats.
pub(crate) fn require_same(
    path: &Path,
    saved: &SavedOptions,
    given: &SavedOptions,
    words: impl Iterator<Item = String>,
) -> Result<(), CommandError> {
    let (saved, given) = (saved.arguments(), given.arguments());
    let without = |all: &[String], others: &[String]| -> Vec<String> {
        all.iter().filter(|option| !others.contains(option)).cloned().collect()
    };
    let (missing, extra) = (without(&saved, &given), without(&given, &saved));
    let parts = [(&missing, "missing"), (&extra, "not in the plan")].into_iter().filter(|(list, _)| !list.is_empty());
    let differences: Vec<String> = parts
        .map(|(list, state)| {
            let are = if list.len() == 1 { "is" } else { "are" };
            format!("{} {are} {state}", escaped(&list.join(" ")))
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(CommandError::usage(
        format!("the options of this sync differ from those of --plan {}: {}", path.display(), differences.join(", ")),
        format!(
            "if these options of the plan were reviewed, run `{}`",
            escaped(&command(corrected(words, missing, &extra)))
        ),
    ))
}

fn command(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = ["nodecfg".to_owned()].into_iter().chain(words).collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// The arguments with the options `missing`, and without the options `extra`.
fn corrected(
    words: impl Iterator<Item = String>,
    missing: Vec<String>,
    extra: &[String],
) -> impl Iterator<Item = String> {
    let mut words = words.peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let name = if word == "-n" { "--namespace" } else { &word };
        // An option and its value may be two arguments.
        if words.peek().is_some_and(|value| extra.contains(&format!("{name}={value}"))) {
            words.next();
        } else if !extra.contains(&word) {
            kept.push(word);
        }
    }
    let end = kept.iter().position(|word| word == "--").unwrap_or(kept.len());
    kept.splice(end..end, missing);
    kept.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrects_a_command() {
        let words = |text: &str| shlex::split(text).unwrap().into_iter();
        let missing = || vec!["--take-over".to_owned()];
        let extra = ["--namespace=x".to_owned(), "--lenient".to_owned()];
        for (given, expected) in [
            ("sync --plan p", "nodecfg sync --plan p --take-over"),
            ("sync --lenient --plan p -n x -- 'a b'", "nodecfg sync --plan p --take-over -- 'a b'"),
            ("sync --plan p --namespace=x . --context x", "nodecfg sync --plan p . --context x --take-over"),
        ] {
            assert_eq!(command(corrected(words(given), missing(), &extra)), expected);
        }
    }
}
