# shellcheck shell=bash
# Functions for requests to GitHub's REST API, with retries. Sourced; needs `token`, and FOLDER in the environment.

# request METHOD URL [BODY-FILE]: sends a request. Sets `status` (000 without an answer) and writes the answer to
# $FOLDER/answer and $FOLDER/headers. The token goes through standard input, because every process of the machine can
# read arguments.
request() {
  local body=()
  if [[ -n ${3:-} ]]; then
    body=(--header "Content-Type: application/json" --data-binary "@$3")
  fi
  : "${token:?}"
  : >"$FOLDER/answer"
  : >"$FOLDER/headers"
  status=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
    curl --config - --silent --show-error --max-time 30 --request "$1" \
      --header "Accept: application/vnd.github+json" --header "X-GitHub-Api-Version: 2022-11-28" \
      ${body[@]+"${body[@]}"} --dump-header "$FOLDER/headers" --output "$FOLDER/answer" \
      --write-out '%{http_code}' "$2" 2>"$FOLDER/curl-error") || status=000
}

# Prints the value of header $1 of the last answer.
header() {
  tr -d '\r' <"$FOLDER/headers" |
    awk -v name="$1:" 'tolower($1) == name { value = $2 } END { print value }'
}

# Prints the reason that the last answer gives.
explanation() {
  local text
  if [[ $status == 000 ]]; then
    text=$(cat "$FOLDER/curl-error")
  else
    text=$(jq --raw-output '.message // "" | tostring | .[0:300]' "$FOLDER/answer" 2>/dev/null || true)
  fi
  printf '%s' "${text:-no reason given}"
}

# Sets `pause` to the seconds to wait before the next try. Fails if a retry is useless. $1: number of tries so far.
may_retry() {
  local after reset
  case $status in
    429 | 403)
      # Permanent refusals and rate limits share a status code; these headers distinguish them.
      after=$(header retry-after)
      if [[ $after =~ ^[0-9]+$ ]]; then
        pause=$after
      elif [[ $(header x-ratelimit-remaining) == 0 ]]; then
        reset=$(header x-ratelimit-reset)
        pause=60
        if [[ $reset =~ ^[0-9]+$ ]]; then
          pause=$((reset - $(date +%s)))
          if ((pause < 1)); then pause=1; fi
        fi
      elif [[ $status == 429 ]]; then
        pause=60
      else
        return 1
      fi
      ;;
    000 | 5??) pause=$((${NODECFG_ACTION_PAUSE:-2} * $1 * $1)) ;;
    *) return 1 ;;
  esac
}
