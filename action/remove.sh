#!/usr/bin/env bash
# Removes the kubeconfig. Always runs, even if the first step created no folder.
set -euo pipefail

if [[ -n ${FOLDER:-} ]]; then
  rm -f "$FOLDER/kubeconfig"
fi
