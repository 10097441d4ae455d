//! Checks of the API server, the credentials, the clock, and the rights of the user.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{Check, CheckedRight, Fact, Facts, NameSample, Purpose, Server, SyncFailure, Unavailable, count};

/// Tolerance for the difference of clocks. The lock and the agents use the server's clock, so small differences break
/// nothing; large ones invalidate certificates and tokens.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);
/// Error code of a server that rejects the credentials.
const UNAUTHORIZED: &str = "cluster-unauthorized";

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    server(&facts.server, checks);
    if facts.server.is_ok() {
        rights(&facts.rights, checks);
    }
    match &facts.admission {
        None => {}
        Some(Ok(())) => checks.push(Check::ok("admission", "the cluster admits new ConfigMaps of this user")),
        Some(Err(cause)) => checks.push(unavailable("admission", cause)),
    }
}

/// Check of a missing fact that a sync needs.
pub(super) fn unavailable(code: &'static str, cause: &Unavailable) -> Check {
    Check::problem(code, SyncFailure::Cluster, &cause.message).fix(&cause.help)
}

fn server(server: &Fact<Server>, checks: &mut Vec<Check>) {
    let Server { address, found, version, ahead, .. } = match server {
        Ok(server) => server,
        Err(cause) => return checks.push(unavailable("api-server", cause)),
    };
    let reached = |version: &str| Check::ok("api-server", format!("{address} answers{version}, found by {found}"));
    match version {
        Ok(version) => {
            checks.push(reached(&format!(" ({version})")));
            checks.push(Check::ok("credentials", "the API server accepts them"));
        }
        Err(cause) if cause.code == UNAUTHORIZED => {
            checks.push(reached(""));
            checks.push(unavailable("credentials", cause));
        }
        Err(cause) => {
            let check = unavailable("api-server", cause);
            return checks.push(Check { seen: format!("{}; found by {found}", check.seen), ..check });
        }
    }
    let seconds = count(usize::try_from(ahead.abs().as_secs()).unwrap_or(usize::MAX), "second");
    checks.push(if ahead.abs() <= TOLERANCE {
        Check::ok("clock", "this machine's clock agrees with the API server's")
    } else {
        let relation = if ahead.is_negative() { "ahead of" } else { "behind" };
        Check::warning("clock", format!("this machine's clock is {seconds} {relation} the API server's"))
            .fix("set it by NTP, here or there: timedatectl timesync-status shows whether it is kept")
    });
}

fn rights(asked: &[CheckedRight], checks: &mut Vec<Check>) {
    let mut given = 0_usize;
    let mut unanswered = NameSample::default();
    let mut optional: BTreeMap<&str, Vec<&CheckedRight>> = BTreeMap::new();
    for asked in asked {
        match (&asked.allowed, asked.purpose) {
            (Ok(Some(false)), Purpose::Sync) => checks.push(
                Check::problem("permission", SyncFailure::Cluster, format!("this user may not {}", asked.right))
                    .about(asked.right.to_string())
                    .fix(asked.right.grant()),
            ),
            (Ok(Some(true)), Purpose::Sync) => given += 1,
            (_, Purpose::Sync) => unanswered.add(&asked.right),
            (Ok(Some(false)), Purpose::Only(command)) => optional.entry(command).or_default().push(asked),
            (_, Purpose::Only(_)) => {}
        }
    }
    if unanswered.number > 0 {
        let seen = format!("the API server does not report whether this user may {}", unanswered.named());
        checks.push(Check::unknown("permission", seen));
    }
    if given > 0 {
        checks.push(Check::ok("permission", format!("all {} of a sync", count(given, "right"))));
    }
    let without = optional.len();
    for (command, rights) in optional {
        let named: Vec<String> = rights.iter().map(|asked| asked.right.to_string()).collect();
        let grants: Vec<String> = rights.iter().map(|asked| asked.right.grant()).collect();
        checks.push(
            Check::note("permission-optional", format!("no {command} for this user, who may not {}", named.join(", ")))
                .about(command)
                .fix(grants.join("; ")),
        );
    }
    if without == 0 && asked.iter().any(|asked| asked.purpose != Purpose::Sync && asked.allowed == Ok(Some(true))) {
        checks.push(Check::ok("permission-optional", "all rights of single commands"));
    }
}
