# shellcheck shell=bash
# Requests to GitHub's REST API. Sourced, with `token` set and FOLDER in the environment.

# request METHOD URL [BODY-FILE]: sets `status`, 000 when there was no answer, and leaves the answer in $FOLDER/answer and
# $FOLDER/headers. The token goes in by standard input: arguments can be read by every process of the machine.
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

# The value of a header of the last answer.
header() {
  tr -d '\r' <"$FOLDER/headers" |
    awk -v name="$1:" 'tolower($1) == name { value = $2 } END { print value }'
}

# What the last answer said of itself.
explanation() {
  local text
  if [[ $status == 000 ]]; then
    text=$(cat "$FOLDER/curl-error")
  else
    text=$(jq --raw-output '.message // "" | tostring | .[0:300]' "$FOLDER/answer" 2>/dev/null || true)
  fi
  printf '%s' "${text:-no reason given}"
}

# Sets `pause` to the seconds after which the last request may be tried again; fails when trying again changes nothing.
# $1: how many tries there were.
may_retry() {
  local after reset
  case $status in
    429 | 403)
      # A refusal for good and one for a while have the same number; these headers tell them apart.
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
