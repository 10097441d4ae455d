#!/usr/bin/env bash
# Decides whether the step passes, when the log, the summary and the comment have been written.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

case $EXIT_CODE in
  0) ;;
  1) [[ $INPUT_COMMAND == diff ]] || fail "nodecfg $INPUT_COMMAND ended with exit code 1" ;;
  2) fail "nodecfg $INPUT_COMMAND could not be carried out as asked (exit code 2); the log says why" ;;
  3) fail "the repository is invalid, or asks for a change that a pool does not allow (exit code 3); the log says where" ;;
  4) fail "the cluster refused, or cannot be reached (exit code 4); the log says what was asked of it" ;;
  5) fail "not every node runs what it should (exit code 5); the log says which" ;;
  6) fail "another sync of this fleet is running (exit code 6); run this job again when it is done" ;;
  7) fail "the saved plan is stale (exit code 7): what was reviewed is no longer what would happen; make and review a new one" ;;
  *) fail "nodecfg $INPUT_COMMAND ended with exit code $EXIT_CODE, which is none of its own" ;;
esac

case $INPUT_FAIL_ON in
  error) ;;
  changes)
    if [[ $EXIT_CODE == 1 ]]; then
      fail "there are changes, and \`fail-on: changes\` forbids them"
    fi
    ;;
  *)
    worst=$(jq --raw-output --from-file "$GITHUB_ACTION_PATH/action/risk.jq" --arg limit "$INPUT_FAIL_ON" "$FOLDER/report.json")
    if [[ -n $worst ]]; then
      fail "\`fail-on: $INPUT_FAIL_ON\` forbids what these pools change: $worst"
    fi
    ;;
esac
