//! Tests of the program's download and build.

use crate::action::github::{Github, archive_name, sha256};
use crate::action::job::{Job, possible, root};
use crate::action::workspace::{KUBELET, Workspace};

fn workspace() -> Workspace {
    Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)])
}

#[test]
fn archive_with_wrong_checksum_is_not_run() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), workspace());
    Job::push(&workspace, &github).with("sha256", github.sha256()).run().passed();
    let other = sha256(b"something else");
    let refused = Job::push(&workspace, &github).with("sha256", &other).run();
    refused.failed_in("Download nodecfg", "from input sha256");
    assert!(refused.left("bin").is_empty());

    github.state().sums = Some(format!("{other}  {}\n", archive_name()));
    let refused = Job::push(&workspace, &github).run();
    refused.failed_in("Download nodecfg", "from SHA256SUMS of the release");
    assert!(refused.left("bin").is_empty());

    github.state().sums = Some(format!("{other}  another.tar.gz\n"));
    Job::push(&workspace, &github).run().failed_in("Download nodecfg", "does not list");
}

#[test]
fn missing_release_is_named() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), workspace());
    let job = || Job::push(&workspace, &github);
    job().with("version", "9.9.9").run().failed_in("Download nodecfg", "/releases/download/v9.9.9/nodecfg-");
    job().with("version", "latest; rm").run().failed_in("Check the inputs", "is not a version");
    job().with("release-url", "http://mirror.example/x").run().failed_in("Download nodecfg", "not an https:// URL");
    job().local().run().failed_in("Download nodecfg", "local path has no releases");
    let mirror = format!("{}/example/nodecfg/releases/download", github.url());
    job().local().with("release-url", mirror).run().passed();
    job().program("uname", "#!/bin/sh\necho Plan9\n").run().failed_in("Download nodecfg", "Plan9 Plan9");
}

#[test]
fn builds_from_the_actions_source() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), workspace());
    // A fake cargo that records its arguments and installs a program.
    let cargo = format!(
        "#!/bin/sh\necho cargo \"$@\"\nwhile [ $# -gt 0 ]; do [ \"$1\" = --target-dir ] && target=$2; shift; done\n\
         mkdir -p \"$target/release\" && cp '{}' \"$target/release/nodecfg\"\n",
        env!("CARGO_BIN_EXE_nodecfg")
    );
    let job = || Job::push(&workspace, &github).local().with("build", "true");
    let outcome = job().program("cargo", &cargo).run();
    outcome.passed();
    let asked = format!("--manifest-path {}/Cargo.toml", root().display());
    assert!(outcome.log().contains("cargo build --release --locked --bin nodecfg") && outcome.log().contains(&asked));
    job().program("cargo", "#!/bin/sh\nexit 101\n").run().failed_in("Build nodecfg", "cannot build nodecfg");
}
