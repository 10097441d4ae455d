//! Error for an unknown name, shared by all commands.

use crate::report::names;
use crate::terminal::failure::CommandError;
use kubelet_config::finding::nearest;
use nodecfg_cluster::ClusterReader;
use nodecfg_contract::names::NodeName;

/// Maximum number of known names to list.
const LISTED: usize = 10;

/// Error for a pool or node (`kind`) that does not exist in `place`.
///
/// Its help is the nearest known name, or else `help`. Without `help`, it lists the known names.
pub(crate) fn unknown_name<'k, N: AsRef<str> + ?Sized + 'k>(
    kind: &str,
    name: &(impl AsRef<str> + ?Sized),
    place: &str,
    known: impl IntoIterator<Item = &'k N>,
    help: &str,
) -> CommandError {
    let (name, known): (&str, Vec<&str>) = (name.as_ref(), known.into_iter().map(AsRef::as_ref).collect());
    let message = format!("there is no {kind} {name} {place}");
    if let Some(near) = nearest(name, known.iter().copied()) {
        return CommandError::usage(message, format!("did you mean {near}?"));
    }
    match (help.is_empty(), known.len()) {
        (_, 0) => CommandError::usage(message, help),
        (true, 1) => CommandError::usage(message, format!("use {}", names(known, LISTED))),
        (true, _) => CommandError::usage(message, format!("use one of {}", names(known, LISTED))),
        (false, 1..=LISTED) => CommandError::usage(format!("{message} (known: {})", names(known, LISTED)), help),
        (false, _) => CommandError::usage(message, help),
    }
}

/// Error for a Node that does not exist in the cluster. Its help is the nearest name.
pub(crate) async fn unknown_node(reader: &ClusterReader, name: &NodeName) -> CommandError {
    let all = match reader.list_nodes().await {
        Ok((all, _)) => all,
        Err(error) => return error.into(),
    };
    let near = nearest(name.as_str(), all.keys().map(NodeName::as_str));
    let list = || "list the nodes with kubectl get nodes".to_owned();
    let help = near.map_or_else(list, |near| format!("did you mean {near}?"));
    CommandError::UnknownNode { node: name.clone(), help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_one_action() {
        let error_of = |known: &[&str], help: &str| {
            let error = unknown_name("pool", "genral", "in the repository", known.iter().copied(), help);
            match error {
                CommandError::Usage { message, help } => (message, help),
                other => panic!("{other:?}"),
            }
        };
        let message = "there is no pool genral in the repository";
        let of = |known: &str, help: &str| (format!("{message}{known}"), help.to_owned());
        assert_eq!(error_of(&["general", "gpu"], "look"), of("", "did you mean general?"));
        assert_eq!(error_of(&["a", "b"], "look"), of(" (known: a, b)", "look"));
        assert_eq!(error_of(&["a", "b"], ""), of("", "use one of a, b"));
        assert_eq!(error_of(&["a"], ""), of("", "use a"));
        assert_eq!(error_of(&["a"; 11], "look"), of("", "look"));
        assert_eq!(error_of(&[], "look"), of("", "look"));
    }
}
