#!/usr/bin/env bash
# Removes the kubeconfig. Always runs, even if the first step created no folder.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

if [[ -n ${FOLDER:-} ]]; then
  rm -f "$FOLDER/kubeconfig"
fi
