#!/usr/bin/env bash
# Adds the report to the job summary. The runner drops summaries of a step over 1 MiB.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

LIMIT=1000000

# Prints the end of nodecfg's standard error, with escaped markup.
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
  printf '### nodecfg %s ended with exit code %s\n\nThe report is too long for this page; see the log.\n' \
    "$INPUT_COMMAND" "$EXIT_CODE" >>"$GITHUB_STEP_SUMMARY"
fi
