//! Names that were given and are not there: said in one way by all commands.

use super::CommandError;
use crate::report::names;
use kubelet_config::spelling::nearest;

/// How many of the names that there are to list.
const LISTED: usize = 10;

/// That there is no pool or node (`kind`) of this name where it was looked for, with the nearest that there is; or else with those
/// that there are, and the way out.
pub(super) fn unknown<'k>(
    kind: &str,
    name: &str,
    place: &str,
    known: impl IntoIterator<Item = &'k str>,
    way_out: &str,
) -> CommandError {
    let known: Vec<&str> = known.into_iter().collect();
    let message = format!("there is no {kind} {name} {place}");
    let help = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        // Of many, ten would not help.
        None if known.is_empty() || (known.len() > LISTED && !way_out.is_empty()) => way_out.to_owned(),
        None if way_out.is_empty() => format!("there is {}", names(known, LISTED)),
        None => format!("there is {}; {way_out}", names(known, LISTED)),
    };
    CommandError::usage(message, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_and_what_may_be_meant() {
        let said = |name: &str, known: &[&str], way_out: &str| match unknown(
            "pool",
            name,
            "in the repository",
            known.iter().copied(),
            way_out,
        ) {
            CommandError::Usage { message, help } => (message, help),
            other => panic!("{other:?}"),
        };
        let of = |help: &str| ("there is no pool genral in the repository".to_owned(), help.to_owned());
        assert_eq!(said("genral", &["general", "gpu"], "look"), of("did you mean general?"));
        assert_eq!(said("genral", &["a", "b"], "look"), of("there is a, b; look"));
        assert_eq!(said("genral", &["a", "b"], ""), of("there is a, b"));
        assert_eq!(said("genral", &["a"; 11], "look"), of("look"));
        assert_eq!(said("genral", &[], "look"), of("look"));
    }
}
