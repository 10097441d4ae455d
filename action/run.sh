#!/usr/bin/env bash
# Runs nodecfg once, and writes down what it found. Whether that passes is decided in result.sh, after everybody was told.
#
# One run makes all reports, so that they cannot disagree when the cluster moves between two.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

# The comment's limit is 65,536 characters; the rest is for what comment.sh lays around the report.
MAX_CHARS=64000

# Sets `against` to the commit that the pull request would be merged into, where the merge commit is checked out.
#
# Two parents alone do not make it that commit: a branch that had main merged into it ends in a commit with two parents as
# well, and the first is its author's own, so that nothing of the branch before that would be shown.
against_base() {
  local commit parents first second more merged
  if ! commit=$(git -C "$INPUT_PATH" cat-file commit HEAD 2>&1); then
    fail "cannot read what is checked out at $INPUT_PATH: $commit"
  fi
  parents=$(printf '%s\n' "$commit" | awk '/^$/ { body = 1 } !body && /^parent / { printf "%s ", $2 }')
  read -r first second more <<<"$parents" || true
  merged=$(jq --raw-output '.pull_request.head.sha // ""' "$GITHUB_EVENT_PATH")
  if [[ -z $second || -n $more ]] ||
    [[ $second != "$merged" && $(git -C "$INPUT_PATH" rev-parse HEAD) != "${GITHUB_SHA:-}" ]]; then
    fail "what is checked out is not the merge commit of the pull request, so what it changes is not known: leave \`ref\` out of \
actions/checkout, or say what to compare with (input against)"
  fi
  if ! against=$(git -C "$INPUT_PATH" rev-parse --verify --quiet "$first^{commit}"); then
    fail "the commit before the merge was not fetched: give actions/checkout \`fetch-depth: 2\`"
  fi
}

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
    against=$INPUT_AGAINST
    if [[ -z $against && -z $INPUT_REVISION && $GITHUB_EVENT_NAME == pull_request && $INPUT_PATH != *:* ]]; then
      against_base
    fi
    if [[ -n $against && $against != none ]]; then
      arguments+=("--against=$against")
    fi
    # Limited for the comment; the job summary has room for all of it.
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
# Words, and nothing that a shell would make of them.
IFS=$' \t\n' read -r -d '' -a more <<<"$INPUT_ARGS" || true
arguments+=(${more[@]+"${more[@]}"} -- "$INPUT_PATH")

# Annotations come as workflow commands, each on a line of standard error.
separate() {
  awk -v annotations="$FOLDER/annotations" -v messages="$FOLDER/messages" '
    /^::(error|warning|notice)[ :]/ { print >annotations; next }
    { print; print >messages; fflush() }'
}

# A pull request's text must not become a command to the runner, which looks for them anywhere in a line.
resume=$(random)
printf '::stop-commands::%s\n' "$resume"
# A runner that cancels sends SIGINT to this process alone, and SIGTERM 7.5 s later. While bash waits for a program in the
# foreground it does not act on signals, so nodecfg runs in the background, where SIGINT is ignored from the start: it is sent
# SIGTERM, which asks for the same gentle stop. What is sent a second time ends it at once.
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
"$NODECFG" "${arguments[@]}" 2>"$FOLDER/stderr" >&3 3>&- &
pid=$!
if ((signals > 0)); then
  kill -TERM "$pid" 2>/dev/null || true
fi
# A signal ends `wait`, not what is waited for.
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
if [[ -n $INPUT_PLAN_OUT && -f $INPUT_PLAN_OUT ]]; then
  output plan "$(cd "$(dirname "$INPUT_PLAN_OUT")" && pwd)/$(basename "$INPUT_PLAN_OUT")"
fi
