#!/usr/bin/env bash
# Removes the credentials. Runs whatever came before, so also when there is no folder yet.
set -euo pipefail

if [[ -n ${FOLDER:-} ]]; then
  rm -f "$FOLDER/kubeconfig"
fi
