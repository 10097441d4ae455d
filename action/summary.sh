#!/usr/bin/env bash
# Puts the report on the page of the workflow run. A step's part of it may have 1 MiB; a longer one is dropped by the runner.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

LIMIT=1000000

# The end of what nodecfg said on standard error, as text that no markup can get out of.
messages() {
  if [[ -s $FOLDER/messages ]]; then
    printf '<pre>\n'
    tail -c 60000 "$FOLDER/messages" | jq --raw-input --slurp --raw-output '@html'
    printf '</pre>\n'
  fi
}

report="$FOLDER/summary.md"
if [[ -s $FOLDER/report.md ]]; then
  cp "$FOLDER/report.md" "$report"
fi
if [[ ! -s $report ]]; then
  printf '### nodecfg %s ended with exit code %s\n\n' "$INPUT_COMMAND" "$EXIT_CODE" >"$report"
  messages >>"$report"
elif ((EXIT_CODE > 1)) && [[ $INPUT_COMMAND != validate ]]; then
  messages >>"$report"
fi
output report-markdown "$report"

if (($(wc -c <"$report") <= LIMIT)); then
  cat "$report" >>"$GITHUB_STEP_SUMMARY"
elif [[ -s $FOLDER/comment.md ]]; then
  cat "$FOLDER/comment.md" >>"$GITHUB_STEP_SUMMARY"
else
  printf '### nodecfg %s ended with exit code %s\n\nThe report is too long for this page; the log has it.\n' \
    "$INPUT_COMMAND" "$EXIT_CODE" >>"$GITHUB_STEP_SUMMARY"
fi
