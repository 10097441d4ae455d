#!/usr/bin/env bash
# Builds nodecfg from the source of this action.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

need cargo "build nodecfg (\`build: true\`)"
# Outside the action's folder, which may be read-only, and outside the user's workspace.
target="${RUNNER_TEMP:?}/nodecfg-target"
if ! cargo build --release --locked --bin nodecfg --no-default-features --features opentelemetry --manifest-path "$GITHUB_ACTION_PATH/Cargo.toml" --target-dir "$target"; then
  rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml")
  fail "cannot build nodecfg: install Rust $rust or newer and a C compiler; see the log"
fi
mkdir -p "$FOLDER/bin"
cp "$target/release/nodecfg" "$FOLDER/bin/nodecfg"
output binary "$FOLDER/bin/nodecfg"
