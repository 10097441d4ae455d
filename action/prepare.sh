#!/usr/bin/env bash
# Checks the inputs before anything is downloaded, and creates the folder that the steps share.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

# one_of INPUT VALUE CHOICES...: refuses any other value.
one_of() {
  local input=$1 value=$2 choice
  shift 2
  for choice in "$@"; do
    if [[ $value == "$choice" ]]; then
      return
    fi
  done
  fail "input $input: \"$value\" is invalid; use one of: $*"
}

# only_for INPUT VALUE COMMANDS...: refuses an input that this command would ignore.
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
  fail "input $input is for command: $*, but command is $INPUT_COMMAND; omit it"
}

one_of command "$INPUT_COMMAND" validate diff sync verify
one_of comment "$INPUT_COMMENT" auto true false
one_of build "$INPUT_BUILD" true false
one_of fail-on "$INPUT_FAIL_ON" error changes restart drain replace never
if [[ $INPUT_FAIL_ON != error ]]; then
  only_for fail-on "$INPUT_FAIL_ON" diff
fi
only_for against "$INPUT_AGAINST" diff
if [[ $INPUT_COMMAND == diff && -z $INPUT_AGAINST && $GITHUB_EVENT_NAME == pull_request ]]; then
  # The default is the first parent of the checked-out commit, which nodecfg does not read in these cases.
  unknown="so the changes of the pull request are unknown: set the revision to compare with (input against), or \
\`against: none\` to compare only with the cluster"
  if [[ $INPUT_PATH == *:* && ! -d $(in_checkout "$INPUT_PATH") ]]; then
    fail "input path is a git URL instead of the checkout, $unknown"
  fi
  if [[ -n $INPUT_REVISION ]]; then
    fail "input revision is set and replaces the checkout, $unknown"
  fi
fi
only_for plan-out "$INPUT_PLAN_OUT" diff
only_for plan "$INPUT_PLAN" sync
if [[ $KUBECONFIG_GIVEN == true ]]; then
  only_for kubeconfig given diff sync verify
fi
only_for kubeconfig-path "$INPUT_KUBECONFIG_PATH" diff sync verify
only_for context "$INPUT_CONTEXT" diff sync verify
[[ -n $INPUT_PATH ]] || fail "input path is empty: set the folder of the configuration, or omit it for the workspace"
if [[ -n $INPUT_SHA256 && ! $INPUT_SHA256 =~ ^[0-9a-f]{64}$ ]]; then
  fail "input sha256: \"$INPUT_SHA256\" is not a SHA-256, which has 64 digits 0-9 and a-f"
fi
if [[ -n $INPUT_VERSION && ! $INPUT_VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+.0-9A-Za-z]*)$ ]]; then
  fail "input version: \"$INPUT_VERSION\" is not a version such as 0.1.0"
fi

if [[ $KUBECONFIG_EMPTY == true ]]; then
  fail "input kubeconfig is empty: set its secret for this repository and environment. Workflows of pull requests \
from forks and of Dependabot get no secrets: set \`kubeconfig: none\`, and diff compares only revisions"
fi
if [[ $KUBECONFIG_GIVEN == true && -n $INPUT_KUBECONFIG_PATH ]]; then
  fail "both kubeconfig and kubeconfig-path are set: omit one of them"
fi
if [[ -n $INPUT_KUBECONFIG_PATH && ! -f $(in_checkout "$INPUT_KUBECONFIG_PATH") ]]; then
  fail "input kubeconfig-path: file $INPUT_KUBECONFIG_PATH does not exist"
fi
need jq
need curl

umask 077
folder=$(mktemp -d "${RUNNER_TEMP:?}/nodecfg.XXXXXXXX")
output folder "$folder"
