#!/usr/bin/env bash
# Builds nodecfg from the source that this action is part of.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

need cargo "build nodecfg (\`build: true\`)"
# Outside of the action's folder, which may be read-only, and of the workspace, which is the user's.
target="${RUNNER_TEMP:?}/nodecfg-target"
if ! cargo build --release --locked --bin nodecfg --manifest-path "$GITHUB_ACTION_PATH/Cargo.toml" --target-dir "$target"; then
  fail "nodecfg does not build here: it needs Rust $(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml") \
or newer and a C compiler; the log says more"
fi
mkdir -p "$FOLDER/bin"
cp "$target/release/nodecfg" "$FOLDER/bin/nodecfg"
output binary "$FOLDER/bin/nodecfg"
