#!/usr/bin/env bash
# Keeps one comment on the pull request: makes it, brings it up to date, and finds it again by a marker that nobody sees.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"
# shellcheck source=action/api.sh
source "$GITHUB_ACTION_PATH/action/api.sh"

TRIES=5
# The longest that an answer may ask to wait, in seconds. A job that waits for an hour is worse than one that says so.
PATIENCE=120
# Up to 100 comments each.
MAX_PAGES=100

if [[ -z ${FOLDER:-} ]]; then
  # The first step refused the inputs, and made none.
  FOLDER=$(mktemp -d "${RUNNER_TEMP:?}/nodecfg.XXXXXXXX")
fi
number=$(jq --raw-output '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
if [[ -z $number ]]; then
  [[ $INPUT_COMMENT == auto ]] || fail "\`comment: true\`, but the event $GITHUB_EVENT_NAME is of no pull request"
  exit 0
fi
head=$(jq --raw-output '.pull_request.head.sha // ""' "$GITHUB_EVENT_PATH")
fork=$(jq --raw-output '.pull_request | .head.repo.full_name != .base.repo.full_name' "$GITHUB_EVENT_PATH")

# Programs that are started from here have no use for it.
token=$INPUT_TOKEN
unset INPUT_TOKEN
[[ $token =~ ^[A-Za-z0-9_.=-]+$ ]] || fail "input token is empty or has characters that no token has"

marker="<!-- nodecfg diff $(jq --null-input --raw-output --arg key "${INPUT_COMMENT_KEY:-$INPUT_PATH}" '$key | @uri') -->"
repository="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY"
comments="$repository/issues/$number/comments"
run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"

# Which commit a comment is about; a comment does not say by itself that a newer one was pushed.
of="of commit ${head:0:12}"

# Whether a comment is made where there is none. Nothing to review is no reason for a mail to everybody.
fresh=true
{
  printf '%s\n' "$marker"
  case $EXIT_CODE in
    0)
      fresh=false
      cat "$FOLDER/comment.md"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
    1)
      cat "$FOLDER/comment.md"
      printf '\n<sub>%s · [job summary, with all details](%s)</sub>\n' "$of" "$run"
      ;;
    "")
      fresh=false
      printf '**nodecfg**: the diff could not be made, [the log](%s) says why. What was here was of an earlier commit.\n' "$run"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
    *)
      fresh=false
      printf '**nodecfg**: the diff ended with exit code %s, [the log](%s) says why. What was here was of an earlier commit.\n' \
        "$EXIT_CODE" "$run"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
  esac
} >"$FOLDER/body.md"
jq --raw-input --slurp '{body: .}' "$FOLDER/body.md" >"$FOLDER/body.json"

# Leaves our comments with this marker, oldest first, in $FOLDER/ours. Everybody can write the marker, so the author counts.
find_ours() {
  local page=1
  : >"$FOLDER/ours"
  while ((page <= MAX_PAGES)); do
    request GET "$comments?per_page=100&page=$page"
    [[ $status == 200 ]] || return 1
    jq --compact-output --arg marker "$marker" --arg author "$INPUT_COMMENT_AUTHOR" \
      '.[] | select(.user.login? == $author) | select((.body // "") | startswith($marker)) | {id, html_url, body}' \
      "$FOLDER/answer" >>"$FOLDER/ours" || return 1
    # A page may have fewer comments than were asked for, and be followed by another one.
    if (($(jq length "$FOLDER/answer") == 0)) && ! tr -d '\r' <"$FOLDER/headers" | grep -qi '^link:.*rel="next"'; then
      return
    fi
    page=$((page + 1))
  done
}

# Two runs at once may both have made one. The first stays; the others say where to look.
retire_others() {
  local id
  jq --null-input --arg url "$url" '{body: "Superseded by [this comment](\($url))."}' >"$FOLDER/superseded.json"
  for id in $(tail -n +2 "$FOLDER/ours" | jq .id); do
    request PATCH "$repository/issues/comments/$id" "$FOLDER/superseded.json"
    [[ $status == 200 ]] || return 1
  done
}

# Everything from the start, so that a request whose answer was lost is not made twice.
keep() {
  url=""
  find_ours || return 1
  if [[ -s $FOLDER/ours ]]; then
    head -n 1 "$FOLDER/ours" >"$FOLDER/first"
    url=$(jq --raw-output .html_url "$FOLDER/first")
    # GitHub stores comments with other line ends than it was sent.
    if ! jq --exit-status --slurpfile new "$FOLDER/body.json" \
      '(.body | gsub("\r\n"; "\n") | sub("\n+$"; "")) == ($new[0].body | sub("\n+$"; ""))' "$FOLDER/first" >/dev/null; then
      request PATCH "$repository/issues/comments/$(jq .id "$FOLDER/first")" "$FOLDER/body.json"
      [[ $status == 200 ]] || return 1
    fi
    retire_others
  elif [[ $fresh == true ]]; then
    request POST "$comments" "$FOLDER/body.json"
    [[ $status == 201 ]] || return 1
    url=$(jq --raw-output .html_url "$FOLDER/answer")
    local author
    author=$(jq --raw-output '.user.login // ""' "$FOLDER/answer")
    if [[ $author != "$INPUT_COMMENT_AUTHOR" ]]; then
      warning "the comment was made as $author; without \`comment-author: $author\` the next run cannot find it and makes another"
    fi
  fi
}

# A run of an older push may end after that of a newer one. Where GitHub does not say, the comment says of which commit it is.
request GET "$repository/pulls/$number"
if [[ $status == 200 ]]; then
  newest=$(jq --raw-output '.head.sha? // ""' "$FOLDER/answer" 2>/dev/null || true)
  if [[ -n $head && -n $newest && $newest != "$head" ]]; then
    notice "no comment: this run is of ${head:0:12}, and the pull request is at ${newest:0:12} by now"
    exit 0
  fi
fi

tries=1
while ! keep; do
  refused="GitHub answered $status to the comment on pull request #$number ($(explanation))"
  may_retry "$tries" || pause=""
  if [[ -z $pause ]]; then
    case $status in
      403)
        if [[ $fork == true && $INPUT_COMMENT == auto ]]; then
          notice "no comment: workflows of pull requests from forks may not write. The job summary has the diff: $run"
          exit 0
        fi
        fail "$refused: the job needs \`permissions: {pull-requests: write}\`, which pull requests from forks do not get"
        ;;
      401) fail "$refused: the token is not valid; it needs pull-requests: write" ;;
      404) fail "$refused: the token does not see it; it needs pull-requests: write in $GITHUB_REPOSITORY" ;;
      422) fail "$refused: with pull-requests: write a comment of up to 65,536 characters should be possible" ;;
      *) fail "$refused, which is not known to pass; the comment needs pull-requests: write" ;;
    esac
  fi
  if ((tries == TRIES)); then
    fail "$refused, and so to each of $TRIES tries; run the job again later. The comment needs pull-requests: write"
  fi
  if ((pause > PATIENCE)); then
    fail "$refused, and asks to wait for $pause s; run the job again then. The comment needs pull-requests: write"
  fi
  printf '%s; trying again in %s s\n' "$refused" "$pause"
  sleep "$pause"
  tries=$((tries + 1))
done
output url "$url"
