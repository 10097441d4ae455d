//! Whether there is an API server to talk to, and whether it lets a sync do what it has to.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{Answer, AskedRight, Check, Ending, Facts, Few, Purpose, Server, Unavailable, count};

/// As much as clocks may differ before somebody should know. The lock and the agents' signs of life are judged by the API
/// server's clock, so nothing fails for it; certificates and tokens do when it gets to be much.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);
/// What a server says that was reached and does not take the credentials.
const UNAUTHORIZED: &str = "cluster-unauthorized";

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    server(&facts.server, checks);
    if facts.server.is_ok() {
        rights(&facts.rights, checks);
    }
}

/// The check of something that could not be had, which a sync needs.
pub(super) fn troubled(code: &'static str, trouble: &Unavailable) -> Check {
    Check::problem(code, Ending::Cluster, &trouble.message).mend(&trouble.help)
}

fn server(server: &Answer<Server>, checks: &mut Vec<Check>) {
    let Server { address, found, version, ahead, .. } = match server {
        Ok(server) => server,
        Err(trouble) => return checks.push(troubled("api-server", trouble)),
    };
    let reached = |version: &str| Check::ok("api-server", format!("{address} answers{version}, found by {found}"));
    match version {
        Ok(version) => {
            checks.push(reached(&format!(" ({version})")));
            checks.push(Check::ok("credentials", "the API server accepts them"));
        }
        Err(trouble) if trouble.code == UNAUTHORIZED => {
            checks.push(reached(""));
            checks.push(troubled("credentials", trouble));
        }
        Err(trouble) => {
            let check = troubled("api-server", trouble);
            return checks.push(Check { seen: format!("{}; found by {found}", check.seen), ..check });
        }
    }
    let seconds = count(usize::try_from(ahead.abs().as_secs()).unwrap_or(usize::MAX), "second");
    checks.push(if ahead.abs() <= TOLERANCE {
        Check::ok("clock", "this machine's clock agrees with the API server's")
    } else {
        let way = if ahead.is_negative() { "ahead of" } else { "behind" };
        Check::warning("clock", format!("this machine's clock is {seconds} {way} the API server's"))
            .mend("set it by NTP, here or there: timedatectl timesync-status shows whether it is kept")
    });
}

fn rights(asked: &[AskedRight], checks: &mut Vec<Check>) {
    let mut given = 0_usize;
    let mut unanswered = Few::default();
    let mut optional: BTreeMap<&str, Vec<&AskedRight>> = BTreeMap::new();
    for asked in asked {
        match (&asked.allowed, asked.purpose) {
            (Ok(Some(false)), Purpose::Sync) => checks.push(
                Check::problem("permission", Ending::Cluster, format!("this user may not {}", asked.right))
                    .about(asked.right.to_string())
                    .mend(format!(
                        "grant it with this rule:\n{}\nnodecfg install makes a user that has all of them",
                        asked.right.rule()
                    )),
            ),
            (Ok(Some(true)), Purpose::Sync) => given += 1,
            (_, Purpose::Sync) => unanswered.add(&asked.right),
            (Ok(Some(false)), Purpose::Only(command)) => optional.entry(command).or_default().push(asked),
            (_, Purpose::Only(_)) => {}
        }
    }
    if unanswered.number > 0 {
        let seen = format!("the API server does not say whether this user may {}", unanswered.named());
        checks.push(Check::unknown("permission", seen));
    }
    if given > 0 {
        checks.push(Check::ok("permission", format!("{} of a sync given", count(given, "right"))));
    }
    let without = optional.len();
    for (command, rights) in optional {
        let named: Vec<String> = rights.iter().map(|asked| asked.right.to_string()).collect();
        let rules: Vec<String> = rights.iter().map(|asked| asked.right.rule()).collect();
        checks.push(
            Check::note("permission-optional", format!("no {command} for this user, who may not {}", named.join(", ")))
                .about(command)
                .mend(format!("where that is wanted, grant it with this rule:\n{}", rules.join("\n"))),
        );
    }
    if without == 0 && asked.iter().any(|asked| asked.purpose != Purpose::Sync && asked.allowed == Ok(Some(true))) {
        checks.push(Check::ok("permission-optional", "those of single commands given too"));
    }
}
