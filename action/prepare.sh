#!/usr/bin/env bash
# Refuses inputs that make no sense before anything is downloaded, and makes the folder that the other steps share.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

# one_of INPUT VALUE CHOICES...
one_of() {
  local input=$1 value=$2 choice
  shift 2
  for choice in "$@"; do
    if [[ $value == "$choice" ]]; then
      return
    fi
  done
  fail "input $input: \"$value\" is none of: $*"
}

# only_for INPUT VALUE COMMANDS...: an input that other commands would ignore without a word.
only_for() {
  local input=$1 value=$2 command
  shift 2
  if [[ -z $value ]]; then
    return
  fi
  for command in "$@"; do
    if [[ $INPUT_COMMAND == "$command" ]]; then
      return
    fi
  done
  fail "input $input is for command: $*, and this is command: $INPUT_COMMAND"
}

one_of command "$INPUT_COMMAND" validate diff sync verify
one_of comment "$INPUT_COMMENT" auto true false
one_of build "$INPUT_BUILD" true false
one_of fail-on "$INPUT_FAIL_ON" error changes restart drain replace never
if [[ $INPUT_FAIL_ON != error ]]; then
  only_for fail-on "$INPUT_FAIL_ON" diff
fi
only_for against "$INPUT_AGAINST" diff
only_for plan-out "$INPUT_PLAN_OUT" diff
only_for plan "$INPUT_PLAN" sync
if [[ $KUBECONFIG_GIVEN == true ]]; then
  only_for kubeconfig given diff sync verify
fi
only_for kubeconfig-path "$INPUT_KUBECONFIG_PATH" diff sync verify
only_for context "$INPUT_CONTEXT" diff sync verify
[[ -n $INPUT_PATH ]] || fail "input path is empty: name the folder of the configuration, or leave it out for the workspace"
if [[ -n $INPUT_SHA256 && ! $INPUT_SHA256 =~ ^[0-9a-f]{64}$ ]]; then
  fail "input sha256: \"$INPUT_SHA256\" is no SHA-256, which is 64 digits 0-9 and a-f"
fi
if [[ -n $INPUT_VERSION && ! $INPUT_VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+.0-9A-Za-z]*)$ ]]; then
  fail "input version: \"$INPUT_VERSION\" is no version such as 0.1.0"
fi

if [[ $KUBECONFIG_EMPTY == true ]]; then
  fail "input kubeconfig is empty: is the secret set for this repository and environment? Workflows of pull requests from \
forks and of Dependabot get no secrets; they go without: \`kubeconfig: none\`, and diff compares revisions alone"
fi
if [[ $KUBECONFIG_GIVEN == true && -n $INPUT_KUBECONFIG_PATH ]]; then
  fail "both kubeconfig and kubeconfig-path are given: leave one of them out"
fi
if [[ -n $INPUT_KUBECONFIG_PATH && ! -f $INPUT_KUBECONFIG_PATH ]]; then
  fail "input kubeconfig-path: there is no file $INPUT_KUBECONFIG_PATH"
fi
need jq
need curl

umask 077
folder=$(mktemp -d "${RUNNER_TEMP:?}/nodecfg.XXXXXXXX")
output folder "$folder"
