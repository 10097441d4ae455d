//! Fake executables for programs that the tests of the documents cannot run. Each checks its arguments and imitates the effect.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A fake that precedes the real program on `PATH`.
pub struct StandIn {
    pub name: &'static str,
    /// Why the real one does not run.
    pub reason: &'static str,
    /// Extended regular expressions of the arguments that it takes, joined by spaces; and what it does then, in bash.
    pub calls: &'static [(&'static str, &'static str)],
}

/// Every fake. Keep the list short: a real program is a better test.
pub const TABLE: &[StandIn] = &[
    StandIn {
        name: "cargo",
        reason: "a build within a test takes minutes and waits for the build that runs the test; tests would run themselves",
        calls: &[
            (
                r"^run( --release| --locked| --quiet)* -- .+",
                r#"while [[ "$1" != -- ]]; do shift; done; shift; exec nodecfg "$@""#,
            ),
            (r"^(build|test|clippy|bench|doc|fmt|deny|install)( --?[a-z-]+)*$", ""),
            (r"^test --lib [a-z_:]+$", r#"test -e "src/${3//:://}.rs" || test -d "src/${3//:://}""#),
            (
                r"^test -p nodecfg-[a-z]+ [a-z_]+$",
                r#"test -e "crates/${3#nodecfg-}/src/$4.rs" || test -d "crates/${3#nodecfg-}/src/$4""#,
            ),
            (r"^test --test [a-z]+( -- --nocapture)?$", r#"test -e "tests/$3/main.rs""#),
            (
                r"^test --lib --test [a-z]+$",
                r#"compgen -G "tests/$4/main.rs" || compgen -G "crates/*/tests/$4/main.rs""#,
            ),
            (r"^test --test [a-z]+ [a-z_]+$", r#"test -e "tests/$3/$4.rs" || test -e "tests/$3/$4/mod.rs""#),
            (
                r"^bench --bench [a-z]+ --bench [a-z]+$",
                r#"test -e "benches/$3/main.rs" && test -e "benches/$5/main.rs""#,
            ),
            (r"^bench --bench [a-z]+( -- .*)?$", r#"test -e "benches/$3.rs" || test -e "benches/$3/main.rs""#),
            (r"^(binstall|install --locked) --git https://github\.com/[a-z/]+( --tag v[0-9.]+)? nodecfg$", ""),
            (r"^\+nightly fuzz run [a-z]+$", r#"test -e "fuzz/fuzz_targets/$4.rs""#),
        ],
    },
    StandIn {
        name: "docker",
        reason: "there is no daemon on a machine for tests, and no registry to push to",
        calls: &[
            (r"^build (--target [a-z-]+ )?(-t|--tag) [a-z0-9./:-]+ \.$", "test -e Dockerfile"),
            (r"^push [a-z0-9./:-]+$", ""),
        ],
    },
    StandIn {
        name: "kubectl",
        reason: "the sandbox keeps no Jobs and no Secrets; for everything else it is the real one",
        calls: &[
            (
                r"^-n [a-z-]+ create job --from=cronjob/[a-z-]+ [a-z-]+$",
                r#""$(type -aP kubectl | sed -n 2p)" -n "$2" get "${5#--from=}"; touch "job-$6""#,
            ),
            (r"^-n [a-z-]+ logs -f job/[a-z-]+$", r#"test -e "job-${5#job/}""#),
            (
                r"^-n [a-z-]+ create secret generic [a-z-]+( --from-file=[a-z_-]+=[a-z0-9._-]+)+$",
                r#"echo token > token.txt; "$(type -aP kubectl | sed -n 2p)" "$@" --dry-run=client -o name"#,
            ),
            (
                r"^krew install --manifest-url https://github\.com/[a-z/]+/releases/download/v[0-9.]+/nodecfg\.yaml$",
                r#"ln -sf "$(type -P nodecfg)" "$(dirname "$0")/kubectl-nodecfg""#,
            ),
            (r"^nodecfg ", r#"exec "$(type -aP kubectl | sed -n 2p)" "$@""#),
            (
                r"^(-n [a-z-]+ )?(apply|config|create|delete|describe|explain|get|kustomize|label|patch|wait) ",
                r#"exec "$(type -aP kubectl | sed -n 2p)" "$@""#,
            ),
        ],
    },
    StandIn {
        name: "curl",
        reason: "there is no release to download: its files are made here",
        calls: &[(
            r"^-fsSL --remote-name-all( https://github\.com/[a-z/]+/releases/download/v[0-9.]+/[A-Za-z0-9._-]+)+$",
            r#"
  for file in "${@:3}"; do
    case "$file" in
      *.tar.gz) tar -czf "${file##*/}" -C "$(dirname "$(type -P nodecfg)")" nodecfg; sha256sum ./*.tar.gz > SHA256SUMS ;;
      */images.txt) echo ghcr.io/example/nodecfg-agent@sha256:0123 > images.txt ;;
      */SHA256SUMS) ;;
      *) touch "${file##*/}" ;;
    esac
  done"#,
        )],
    },
    StandIn {
        name: "cosign",
        reason: "there is no signed release",
        calls: &[
            (
                r"^verify-blob SHA256SUMS --bundle [A-Za-z0-9.]+ --certificate-identity https://[^ ]+ --certificate-oidc-issuer https://[^ ]+$",
                r#"test -s "$2" && test -e "$4""#,
            ),
            (
                r"^verify ghcr\.io/[^ ]+ --certificate-identity https://[^ ]+ --certificate-oidc-issuer https://[^ ]+$",
                "",
            ),
        ],
    },
    StandIn {
        name: "helm",
        reason: "there is no registry with the chart; a test of the project renders it",
        calls: &[(
            r"^(template|install) nodecfg oci://ghcr\.io/[a-z/]+ --version [0-9.]+ --namespace nodecfg-system ",
            "",
        )],
    },
    StandIn {
        name: "ssh-keyscan",
        reason: "there is no git.example.com: its host key is made here",
        calls: &[(
            r"^git\.example\.com$",
            r#"key="$TMPDIR/host.$$"; ssh-keygen -q -t ed25519 -N "" -f "$key"; echo "$1 $(cut -d" " -f1,2 "$key.pub")""#,
        )],
    },
    StandIn {
        name: "systemctl",
        reason: "it would act on the services of this machine",
        calls: &[(r"^(enable --now|disable --now|restart) (nodecfg-agent|kubelet)$", ""), ("^daemon-reload$", "")],
    },
    StandIn {
        name: "install",
        reason: "it would write into system folders of this machine",
        calls: &[
            // The program of another package, which is not built with this test.
            ("^-m 0755 nodecfg-agent /usr/local/bin/nodecfg-agent$", ""),
            (
                r"^-m 0[0-7]+ [^ ]+ /(usr/local/bin|etc/systemd/system)/[^ ]*$",
                r#"test -e "$3" || type -P "$3" >/dev/null"#,
            ),
        ],
    },
];

impl StandIn {
    fn script(&self) -> String {
        let mut script = "#!/usr/bin/env bash\nset -euo pipefail\n".to_owned();
        for (index, (call, action)) in self.calls.iter().enumerate() {
            // In a variable, since bash reads quotes within an expression as literal characters.
            let _ = writeln!(
                script,
                "call{index}='{call}'\nif [[ \"$*\" =~ $call{index} ]]; then\n  {action}\n  exit 0\nfi"
            );
        }
        let _ = writeln!(
            script,
            "echo \"tests/program/docs/stand_ins.rs: {} does not take these arguments: $*\" >&2\nexit 64",
            self.name
        );
        script
    }
}

/// Writes every fake into a folder.
pub fn write(folder: &Path) {
    for stand_in in TABLE {
        executable(&folder.join(stand_in.name), &stand_in.script());
    }
}

/// Writes a script that can be run.
pub fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn fakes_have_reasons_and_reject_unknown_arguments() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for stand_in in TABLE {
        assert!(!stand_in.reason.is_empty());
        let run = std::process::Command::new(folder.path().join(stand_in.name)).arg("nonsense").output().unwrap();
        assert_eq!(run.status.code(), Some(64), "{}", stand_in.name);
    }
}
