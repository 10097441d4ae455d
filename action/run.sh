#!/usr/bin/env bash
# Runs nodecfg once and records its results. result.sh decides later whether the step passes.
#
# One run makes all reports, so that they describe the same state of the cluster.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

# The comment's limit is 65,536 characters. The rest is for the text that comment.sh adds to the report.
MAX_CHARS=64000

arguments=("$INPUT_COMMAND" "--report=json=$FOLDER/report.json" "--report=markdown=$FOLDER/report.md")
if [[ -n $INPUT_REVISION ]]; then
  arguments+=("--rev=$INPUT_REVISION")
fi
if [[ -n $KUBECONFIG_FILE ]]; then
  arguments+=("--kubeconfig=$KUBECONFIG_FILE")
fi
if [[ -n $INPUT_CONTEXT ]]; then
  arguments+=("--context=$INPUT_CONTEXT")
fi
exec 3>&1
case $INPUT_COMMAND in
  diff)
    if [[ -z $INPUT_AGAINST && $GITHUB_EVENT_NAME == pull_request ]]; then
      # nodecfg finds the base of the merge commit: git in the checkout would obey files of the pull request.
      merged=$(jq --raw-output '.pull_request.head.sha // ""' "$GITHUB_EVENT_PATH")
      arguments+=("--merge-of=$merged")
    elif [[ -n $INPUT_AGAINST && $INPUT_AGAINST != none ]]; then
      arguments+=("--against=$INPUT_AGAINST")
    fi
    # Limited for the comment; the job summary shows the whole report.
    arguments+=(-o markdown "--max-chars=$MAX_CHARS")
    arguments+=("--report=text=$FOLDER/report.txt")
    exec 3>"$FOLDER/comment.md"
    if [[ -n $INPUT_PLAN_OUT ]]; then
      arguments+=("--out=$INPUT_PLAN_OUT")
    fi
    ;;
  sync)
    if [[ -n $INPUT_PLAN ]]; then
      arguments+=("--plan=$INPUT_PLAN")
    fi
    ;;
esac
# Splits at spaces, without other expansions of the shell.
IFS=$' \t\n' read -r -d '' -a more <<<"$INPUT_ARGS" || true
arguments+=(${more[@]+"${more[@]}"} -- "$INPUT_PATH")

# Separates annotations from messages. Annotations are workflow commands, each on a line of standard error.
separate() {
  awk -v annotations="$FOLDER/annotations" -v messages="$FOLDER/messages" '
    /^::(error|warning|notice)[ :]/ { print >annotations; next }
    { print; print >messages; fflush() }'
}

# The runner accepts commands anywhere in a line. Text of a pull request must not become one.
resume=$(random)
printf '::stop-commands::%s\n' "$resume"
# On cancellation the runner sends SIGINT to this process only, and SIGTERM 7.5 s later. bash delays signals while a
# foreground program runs, so nodecfg runs in the background. Background programs ignore SIGINT, so nodecfg gets
# SIGTERM, which requests the same graceful stop. A second signal stops nodecfg at once.
pid=""
signals=0
stop() {
  signals=$((signals + 1))
  [[ -z $pid ]] || kill -TERM "$pid" 2>/dev/null || true
}
trap stop INT TERM
mkfifo "$FOLDER/stderr"
separate <"$FOLDER/stderr" 3>&- &
separating=$!
{ cd "$checkout" && exec "$NODECFG" "${arguments[@]}" 3>&-; } 2>"$FOLDER/stderr" >&3 &
pid=$!
if ((signals > 0)); then
  kill -TERM "$pid" 2>/dev/null || true
fi
# wait_for PID: waits for a process. A signal ends `wait` before the process ends.
wait_for() {
  local seen
  while :; do
    seen=$signals
    code=0
    wait "$1" || code=$?
    if ((seen == signals)); then return; fi
  done
}
wait_for "$separating"
wait_for "$pid"
trap - INT TERM
exec 3>&-
if [[ -f $FOLDER/report.txt ]]; then
  cat "$FOLDER/report.txt"
fi
printf '::%s::\n' "$resume"
if [[ -f $FOLDER/annotations ]]; then
  cat "$FOLDER/annotations"
fi

output exit-code "$code"
if [[ -s $FOLDER/report.json ]]; then
  output report-json "$FOLDER/report.json"
  facts=$(jq --raw-output --slurp --from-file "$GITHUB_ACTION_PATH/action/facts.jq" "$FOLDER/report.json")
  while IFS=$'\t' read -r name value; do
    output "$name" "$value"
  done <<<"$facts"
fi
plan_out=$(in_checkout "$INPUT_PLAN_OUT")
if [[ -n $INPUT_PLAN_OUT && -f $plan_out ]]; then
  output plan "$plan_out"
fi
