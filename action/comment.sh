#!/usr/bin/env bash
# Creates or updates one comment on the pull request. A hidden marker in the comment identifies it.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"
# shellcheck source=action/api.sh
source "$GITHUB_ACTION_PATH/action/api.sh"

MAX_TRIES=5
# Longest pause that an answer may request, in seconds. Longer ones fail the job instead of blocking it.
MAX_PAUSE=120
# Each page has up to 100 comments.
MAX_PAGES=100

if [[ -z ${FOLDER:-} ]]; then
  # The first step failed before it created the folder.
  FOLDER=$(mktemp -d "${RUNNER_TEMP:?}/nodecfg.XXXXXXXX")
fi
number=$(jq --raw-output '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
if [[ -z $number ]]; then
  [[ $INPUT_COMMENT == auto ]] || fail "\`comment: true\`, but the event $GITHUB_EVENT_NAME has no pull request"
  exit 0
fi
head=$(jq --raw-output '.pull_request.head.sha // ""' "$GITHUB_EVENT_PATH")
fork=$(jq --raw-output '.pull_request | .head.repo.full_name != .base.repo.full_name' "$GITHUB_EVENT_PATH")

# Hides the token from the programs that this script starts.
token=$INPUT_TOKEN
unset INPUT_TOKEN
[[ $token =~ ^[A-Za-z0-9_.=-]+$ ]] || fail "input token is empty or has invalid characters"

marker="<!-- nodecfg diff $(jq --null-input --raw-output --arg key "${INPUT_COMMENT_KEY:-$INPUT_PATH}" '$key | @uri') -->"
repository="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY"
comments="$repository/issues/$number/comments"
run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"

# The comment names its commit, because a newer one may exist.
of="of commit ${head:0:12}"

# Without changes, a new comment would only notify all subscribers.
create_missing=true
{
  printf '%s\n' "$marker"
  case $EXIT_CODE in
    0)
      create_missing=false
      cat "$FOLDER/comment.md"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
    1)
      cat "$FOLDER/comment.md"
      printf '\n<sub>%s · [job summary, with all details](%s)</sub>\n' "$of" "$run"
      ;;
    "")
      create_missing=false
      printf '**nodecfg**: the diff failed, see [the log](%s). The previous diff was of an older commit.\n' "$run"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
    *)
      create_missing=false
      printf '**nodecfg**: the diff ended with exit code %s, see [the log](%s). The previous diff was of an older commit.\n' \
        "$EXIT_CODE" "$run"
      printf '\n<sub>%s</sub>\n' "$of"
      ;;
  esac
} >"$FOLDER/body.md"
jq --raw-input --slurp '{body: .}' "$FOLDER/body.md" >"$FOLDER/body.json"

# Writes our comments with this marker to $FOLDER/ours, oldest first. Checks the author too, because any user can
# write the marker.
find_comments() {
  local page=1
  : >"$FOLDER/ours"
  while ((page <= MAX_PAGES)); do
    request GET "$comments?per_page=100&page=$page"
    [[ $status == 200 ]] || return 1
    jq --compact-output --arg marker "$marker" --arg author "$INPUT_COMMENT_AUTHOR" \
      '.[] | select(.user.login? == $author) | select((.body // "") | startswith($marker)) | {id, html_url, body}' \
      "$FOLDER/answer" >>"$FOLDER/ours" || return 1
    # A page with fewer comments than requested may have a successor.
    if (($(jq length "$FOLDER/answer") == 0)) && ! tr -d '\r' <"$FOLDER/headers" | grep -qi '^link:.*rel="next"'; then
      return
    fi
    page=$((page + 1))
  done
}

# Links the other comments to the first one. Two concurrent runs can each create a comment.
supersede_others() {
  local id
  jq --null-input --arg url "$url" '{body: "Superseded by [this comment](\($url))."}' >"$FOLDER/superseded.json"
  for id in $(tail -n +2 "$FOLDER/ours" | jq .id); do
    request PATCH "$repository/issues/comments/$id" "$FOLDER/superseded.json"
    [[ $status == 200 ]] || return 1
  done
}

# Creates or updates the comment. Searches first on each try, because the answer to a successful request may be lost.
create_or_update() {
  url=""
  find_comments || return 1
  if [[ -s $FOLDER/ours ]]; then
    head -n 1 "$FOLDER/ours" >"$FOLDER/first"
    url=$(jq --raw-output .html_url "$FOLDER/first")
    # GitHub changes the line endings of comments.
    if ! jq --exit-status --slurpfile new "$FOLDER/body.json" \
      '(.body | gsub("\r\n"; "\n") | sub("\n+$"; "")) == ($new[0].body | sub("\n+$"; ""))' "$FOLDER/first" >/dev/null; then
      request PATCH "$repository/issues/comments/$(jq .id "$FOLDER/first")" "$FOLDER/body.json"
      [[ $status == 200 ]] || return 1
    fi
    supersede_others
  elif [[ $create_missing == true ]]; then
    request POST "$comments" "$FOLDER/body.json"
    [[ $status == 201 ]] || return 1
    url=$(jq --raw-output .html_url "$FOLDER/answer")
    local author
    author=$(jq --raw-output '.user.login // ""' "$FOLDER/answer")
    if [[ $author != "$INPUT_COMMENT_AUTHOR" ]]; then
      warning "the comment's author is $author: set \`comment-author: $author\`, or the next run makes another comment"
    fi
  fi
}

# A run for an older push may end after the run for a newer one. If GitHub does not answer, the commit in the comment
# shows the age.
request GET "$repository/pulls/$number"
if [[ $status == 200 ]]; then
  newest=$(jq --raw-output '.head.sha? // ""' "$FOLDER/answer" 2>/dev/null || true)
  if [[ -n $head && -n $newest && $newest != "$head" ]]; then
    notice "no comment: this run is for ${head:0:12}, but the pull request is now at ${newest:0:12}"
    exit 0
  fi
fi

tries=1
while ! create_or_update; do
  refused="GitHub answered $status to the comment on pull request #$number ($(explanation))"
  may_retry "$tries" || pause=""
  if [[ -z $pause ]]; then
    case $status in
      403)
        if [[ $fork == true && $INPUT_COMMENT == auto ]]; then
          notice "no comment: workflows of pull requests from forks cannot write. See the diff in the job summary: $run"
          exit 0
        fi
        fail "$refused: set \`permissions: {pull-requests: write}\` for the job; pull requests from forks do not get it"
        ;;
      401) fail "$refused: the token is invalid; use one with pull-requests: write" ;;
      404) fail "$refused: the token has no access; use one with pull-requests: write in $GITHUB_REPOSITORY" ;;
      422) fail "$refused: the comment is invalid or over 65,536 characters; the token needs pull-requests: write" ;;
      *) fail "$refused: a retry would not help; the comment needs pull-requests: write" ;;
    esac
  fi
  if ((tries == MAX_TRIES)); then
    fail "$refused on each of $MAX_TRIES tries; run the job again later. The comment needs pull-requests: write"
  fi
  if ((pause > MAX_PAUSE)); then
    fail "$refused and requests a pause of $pause s; run the job again then. The comment needs pull-requests: write"
  fi
  printf '%s; retrying in %s s\n' "$refused" "$pause"
  sleep "$pause"
  tries=$((tries + 1))
done
output url "$url"
