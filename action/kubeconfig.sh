#!/usr/bin/env bash
# Writes the kubeconfig, readable only by this user. remove.sh deletes it in every case.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

[[ $INPUT_KUBECONFIG == *[![:space:]]* ]] || fail "input kubeconfig has only spaces; check the value of its secret"
umask 077
printf '%s\n' "$INPUT_KUBECONFIG" >"$FOLDER/kubeconfig"
output file "$FOLDER/kubeconfig"
