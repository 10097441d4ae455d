//! The flags of a kubelet, from the table `crates/kubelet-config/data/flags.csv`: flag, field, type, how its value
//! combines with that of the files, versions and source. Flags without a field change nothing in the configuration.
//!
//! The kubelet parses its command line once more over the configuration of its files, without setting defaults again
//! (`cmd/kubelet/app/server.go`, `kubeletConfigFlagPrecedence`). So a flag may set zero. A flag that is given several
//! times adds to its own list or map, not to that of the files, unless its row says `merges`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::flag_values::Kind;
use super::traced::{default_place, set, tree};
use super::{Origin, Refused};
use crate::document::{Mapping, Node, Value};
use crate::finding::Place;
use crate::{Minor, fields, table};

static TEXT: &str = include_str!("../../data/flags.csv");
static TABLE: LazyLock<BTreeMap<String, Flag>> = LazyLock::new(|| {
    table::rows(TEXT).filter_map(|cells| flag(&cells)).map(|flag| (flag.name.clone(), flag)).collect()
});

/// One flag.
#[derive(Debug, Clone, PartialEq)]
struct Flag {
    name: String,
    /// The field that the flag sets.
    field: Option<&'static fields::Field>,
    kind: Kind,
    /// Whether the value is added to that of the files.
    merges: bool,
    since: Option<Minor>,
    until: Option<Minor>,
}

impl Flag {
    fn is_known_to(&self, minor: Minor) -> bool {
        self.since.is_none_or(|since| since <= minor) && self.until.is_none_or(|until| minor <= until)
    }
}

/// Name of a flag that sets a field: `max-pods`. `None` if no flag sets it.
#[must_use]
pub fn flag_of(field: &str) -> Option<&'static str> {
    TABLE.values().find(|flag| flag.field.is_some_and(|known| known.path == field)).map(|flag| flag.name.as_str())
}

/// The value of a flag of the command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    flag: &'static Flag,
    value: Json,
}

impl Given {
    /// The flag as on a command line: `--max-pods`, or `-v`.
    pub(super) fn origin(&self) -> String {
        written(&self.flag.name)
    }
}

fn written(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// Returns the values of `--config` and `--config-dir` in a command line. Empty values count as unset.
///
/// # Errors
/// The kubelet refuses its flags.
pub fn paths(arguments: &[String], minor: Minor) -> Result<[Option<String>; 2], Refused> {
    let given = read(arguments, minor)?;
    let text = |name: &str| given.get(name)?.value.as_str().filter(|path| !path.is_empty()).map(str::to_owned);
    Ok([text("config"), text("config-dir")])
}

/// Parses the arguments of a command line. Returns the flags that set fields of this version.
pub(super) fn parse(arguments: &[String], minor: Minor) -> Result<Vec<Given>, Refused> {
    let has_field = |given: &Given| given.flag.field.is_some_and(|field| field.is_known_to(minor));
    Ok(read(arguments, minor)?.into_values().filter(has_field).collect())
}

/// Reads arguments as pflag does.
fn read(arguments: &[String], minor: Minor) -> Result<BTreeMap<&'static str, Given>, Refused> {
    let mut given: BTreeMap<&str, Given> = BTreeMap::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) = split(argument)?;
        let name = name.replace('_', "-");
        let Some((_, flag)) = TABLE.get_key_value(&name).filter(|(_, flag)| flag.is_known_to(minor)) else {
            let reason = match name.as_str() {
                "help" | "h" | "version" => "the kubelet prints a text and exits".to_owned(),
                _ => format!("kubelet {minor} has no such flag"),
            };
            return Err(refused(&written(&name), &reason));
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => value.to_owned(),
            (None, Kind::Bool | Kind::SwitchOn) => "true".to_owned(),
            (None, _) => match rest.next() {
                Some(value) => value.clone(),
                None => return Err(refused(&written(&name), "the flag needs a value")),
            },
        };
        let before = given.get(name.as_str()).map(|given| &given.value);
        let result = flag.kind.read(&value, before);
        // The value is not quoted: it may be a password.
        let value =
            result.ok_or_else(|| refused(&written(&name), &format!("the value is not {}", flag.kind.phrase())))?;
        if let Some(value) = value {
            given.insert(&flag.name, Given { flag, value });
        }
    }
    Ok(given)
}

/// Splits an argument into the name of a flag and its value.
fn split(argument: &str) -> Result<(&str, Option<&str>), Refused> {
    if let Some(long) = argument.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return match name.chars().next() {
            None | Some('-') => Err(refused("the command line", "an argument is no flag")),
            Some(_) => Ok((name, value)),
        };
    }
    // -v is the only short flag beside -h.
    match argument.strip_prefix('-').and_then(|short| Some((short.get(..1)?, short.get(1..)?))) {
        Some((name @ ("v" | "h"), rest)) => {
            let rest = rest.strip_prefix('=').unwrap_or(rest);
            Ok((name, Some(rest).filter(|rest| !rest.is_empty())))
        }
        Some((name, _)) if name != "-" => Err(refused(&format!("-{name}"), "the kubelet has no such flag")),
        _ => Err(refused("the command line", "it has an argument that is no flag")),
    }
}

fn refused(flag: &str, reason: &str) -> Refused {
    Refused::new(Origin::Flag(flag.to_owned()), reason)
}

/// Sets the fields of flags in a configuration.
pub(super) fn over(mut root: Node, flags: &[Given]) -> Node {
    for given in flags {
        let Some(field) = given.flag.field else { continue };
        let place = Place::whole_file(given.origin());
        let value = tree(&given.value, &place);
        let value = match (&value.value, root.at(&field.path).map(|old| &old.value)) {
            (Value::Mapping(new), Some(Value::Mapping(old))) if given.flag.merges => {
                let mut all: Mapping = old.clone();
                all.extend(new.clone());
                Node { value: Value::Mapping(all), place }
            }
            (Value::Sequence(new), Some(Value::Sequence(old))) if given.flag.merges => {
                Node { value: Value::Sequence([old.clone(), new.clone()].concat()), place }
            }
            _ => value,
        };
        set(&mut root, &field.path, value);
    }
    // Kubelets parse their flags again after the files, and these flags start as false.
    for path in ["logging.options.text.splitStream", "logging.options.json.splitStream"] {
        if root.at(path).is_some_and(|node| !node.place.file.starts_with('-')) {
            set(&mut root, path, tree(&json!(false), &default_place()));
        }
    }
    root
}

fn flag(cells: &[String]) -> Option<Flag> {
    let [name, field, kind, combines, since, until, _source] = cells else { return None };
    Some(Flag {
        name: name.clone(),
        field: if field.is_empty() { None } else { Some(fields::lookup(field)?) },
        kind: table::word(kind)?,
        merges: match combines.as_str() {
            "merges" => true,
            "replaces" => false,
            "" if field.is_empty() => false,
            _ => return None,
        },
        since: table::minor(since),
        until: table::minor(until),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_flags_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("flag,field,type,combines,since,until,source"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads, and no flag appears twice");
        assert!(TEXT.lines().skip(1).is_sorted_by_key(|line| line.split(',').next()), "the table is sorted");
        for cells in table::rows(TEXT) {
            assert!(cells[6].len() > 5, "{} has a source", cells[0]);
            for minor in [&cells[4], &cells[5]] {
                assert!(minor.is_empty() || table::minor(minor).is_some(), "{}", cells[0]);
            }
        }
    }

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// The fields that a command line sets, or the reason of its refusal.
    fn fields(line: &str, minor: u32) -> String {
        match parse(&arguments(line), Minor(minor)) {
            Err(refused) => refused.to_string(),
            Ok(given) => {
                let root = over(Node::empty_mapping(default_place()), &given);
                root.to_json().to_string().replace('"', "")
            }
        }
    }

    #[test]
    fn reads_every_form_of_a_flag() {
        for (line, result) in [
            ("--max-pods=5", "{maxPods:5}"),
            ("--max-pods 5 --max_pods 0x7", "{maxPods:7}"),
            ("--fail-swap-on --enable-server=F", "{enableServer:false,failSwapOn:true}"),
            ("-v 3", "{logging:{verbosity:3}}"),
            ("-v=3", "{logging:{verbosity:3}}"),
            ("-v3", "{logging:{verbosity:3}}"),
            ("--v=3", "{logging:{verbosity:3}}"),
            ("--cluster-dns=a,b --cluster-dns=c", "{clusterDNS:[a,b,c]}"),
            ("--cluster-dns=", "{clusterDNS:[]}"),
            ("--eviction-hard=a<1%,b<2% --eviction-hard=c<3", "{evictionHard:{a:1%,b:2%,c:3}}"),
            ("--kube-reserved=cpu=1,memory=2Gi", "{kubeReserved:{cpu:1,memory:2Gi}}"),
            ("--cpu-manager-policy-options=a=b,c=d", "{cpuManagerPolicyOptions:{a:b,c=d}}"),
            ("--feature-gates=A=true,B=0", "{featureGates:{A:true,B:false}}"),
            ("--manifest-url-header=a:b,a:c", "{staticPodURLHeader:{a:[b,c]}}"),
            (
                "--register-with-taints=a=b:NoExecute,c:NoSchedule",
                "{registerWithTaints:[{effect:NoExecute,key:a,value:b},{effect:NoSchedule,key:c}]}",
            ),
            (
                "--reserved-memory=0:memory=1Gi;1:memory=2Gi --reserved-memory=2:hugepages-2Mi=4Mi",
                "{reservedMemory:[{limits:{memory:1Gi},numaNode:0},{limits:{memory:2Gi},numaNode:1},\
                 {limits:{hugepages-2Mi:4Mi},numaNode:2}]}",
            ),
            ("--vmodule=a=1,b=2", "{logging:{vmodule:[{filePattern:a,verbosity:1},{filePattern:b,verbosity:2}]}}"),
            ("--sync-frequency=90s --address=::1", "{address:::1,syncFrequency:1m30s}"),
            ("--seccomp-default=false", "{}"),
            ("--kubeconfig=/k --node-ip=1.2.3.4 --config=/c", "{}"),
            ("--max-pods=5.0", "--max-pods: the value is not a whole number in its range"),
            ("--max-pods=3000000000", "--max-pods: the value is not a whole number in its range"),
            ("--max-pods", "--max-pods: the flag needs a value"),
            ("--fail-swap-on no", "the command line: it has an argument that is no flag"),
            ("--fail-swap-on=no", "--fail-swap-on: the value is not a boolean"),
            ("--no-such-flag", "--no-such-flag: kubelet 1.36 has no such flag"),
            ("-x", "-x: the kubelet has no such flag"),
            (
                "--register-with-taints=a=b",
                "--register-with-taints: the value is not a list of taints such as key=value:NoSchedule",
            ),
            ("--version", "--version: the kubelet prints a text and exits"),
        ] {
            assert_eq!(fields(line, 36), result, "{line}");
        }
        assert_eq!(fields("--fail-cgroupv1=false", 30), "--fail-cgroupv1: kubelet 1.30 has no such flag");
        assert_eq!(fields("--register-node=false", 22), "{}", "1.22 has the flag and no field");
        let paths = paths(&arguments("--config=/a --config-dir=/b/ --max-pods=5"), Minor(36));
        assert_eq!(paths, Ok([Some("/a".to_owned()), Some("/b/".to_owned())]));
    }
}
