#!/usr/bin/env bash
# Passes or fails the step, after the log, the summary and the comment.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

# Prints the first error and its fix, or the text $1. Findings have annotations of their own.
reason() {
  local error='last | select(.kind == "Error" and .validation == null) | .errors[0] | "\(.message); \(.help)" | .[0:1000]'
  error=$(jq --raw-output --slurp "$error" "$FOLDER/report.json" 2>/dev/null) || true
  printf '%s' "${error:-$1}"
}

case $EXIT_CODE in
  0) ;;
  1) [[ $INPUT_COMMAND == diff ]] || fail "nodecfg $INPUT_COMMAND ended with exit code 1" ;;
  2) fail "nodecfg $INPUT_COMMAND could not run as requested (exit code 2); see the log for the reason" ;;
  3) fail "$(reason "the repository is invalid, or requires a change that a pool does not allow") (exit code 3); see the log" ;;
  4) fail "the cluster refused a request or is unreachable (exit code 4); see the log for the request" ;;
  5) fail "some nodes do not run their configuration (exit code 5); see the log for their names" ;;
  6) fail "another sync of this fleet is running (exit code 6); run this job again when it is done" ;;
  7) fail "the saved plan is stale or damaged (exit code 7); create and review a new plan" ;;
  *) fail "nodecfg $INPUT_COMMAND ended with the unknown exit code $EXIT_CODE; see the log" ;;
esac

case $INPUT_FAIL_ON in
  error) ;;
  changes)
    if [[ $EXIT_CODE == 1 ]]; then
      fail "diff found changes, which \`fail-on: changes\` forbids"
    fi
    ;;
  *)
    worst=$(jq --raw-output --from-file "$GITHUB_ACTION_PATH/action/risk.jq" --arg limit "$INPUT_FAIL_ON" "$FOLDER/report.json")
    if [[ -n $worst ]]; then
      fail "\`fail-on: $INPUT_FAIL_ON\` forbids the changes of these pools: $worst"
    fi
    ;;
esac
