#!/usr/bin/env bash
# Writes the kubeconfig where only this user can read it. remove.sh removes it, whatever happens in between.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

[[ $INPUT_KUBECONFIG == *[![:space:]]* ]] || fail "input kubeconfig has nothing but spaces: what does its secret hold?"
umask 077
printf '%s\n' "$INPUT_KUBECONFIG" >"$FOLDER/kubeconfig"
output file "$FOLDER/kubeconfig"
