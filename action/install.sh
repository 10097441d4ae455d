#!/usr/bin/env bash
# Downloads the release for this runner and checks its SHA-256 before anything runs.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

system="$(uname -s) $(uname -m)"
case $system in
  "Linux x86_64") target=x86_64-unknown-linux-musl ;;
  "Linux aarch64" | "Linux arm64") target=aarch64-unknown-linux-musl ;;
  "Darwin x86_64") target=x86_64-apple-darwin ;;
  "Darwin arm64") target=aarch64-apple-darwin ;;
  *) fail "no release of nodecfg for $system; set \`build: true\` to build from source" ;;
esac

version=$INPUT_VERSION
if [[ -z $version ]]; then
  # The action and its program are one release. The commit of the action pins the version to download. Only input
  # sha256 pins the archive, because the files of a release can be replaced.
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml" | head -n 1)
fi

base=${INPUT_RELEASE_URL%/}
if [[ -z $base ]]; then
  # The runner keeps actions in _actions/OWNER/REPOSITORY/REF. GITHUB_ACTION_REPOSITORY names only the outermost
  # action.
  case $GITHUB_ACTION_PATH in
    */_actions/*/*/*)
      rest=${GITHUB_ACTION_PATH##*/_actions/}
      owner=${rest%%/*}
      rest=${rest#*/}
      base="$GITHUB_SERVER_URL/$owner/${rest%%/*}/releases/download"
      ;;
    *) fail "an action from a local path has no releases; set release-url, or \`build: true\`" ;;
  esac
fi
case $base in
  https://*) protocol='=https' ;;
  # A local server, for tests.
  http://127.0.0.1:* | http://localhost:*) protocol='=http' ;;
  *) fail "input release-url: $base is not an https:// URL" ;;
esac

# download NAME FILE: downloads a file of the release.
download() {
  local url="$base/v$version/$1"
  if ! curl --proto "$protocol" --silent --show-error --fail --location --retry 3 --max-time 300 --output "$2" "$url"; then
    fail "cannot download $url: check that release $version exists and this runner can reach it. release-url sets \
a mirror, and \`build: true\` builds nodecfg from source"
  fi
}

archive="nodecfg-$target.tar.gz"
download "$archive" "$FOLDER/$archive"
expected=$INPUT_SHA256
source="input sha256"
if [[ -z $expected ]]; then
  source="SHA256SUMS of the release"
  download SHA256SUMS "$FOLDER/SHA256SUMS"
  expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1; exit }' "$FOLDER/SHA256SUMS")
  [[ -n $expected ]] || fail "SHA256SUMS of $base/v$version does not list $archive"
fi
if command -v sha256sum >/dev/null; then
  actual=$(sha256sum <"$FOLDER/$archive")
else
  actual=$(shasum -a 256 <"$FOLDER/$archive")
fi
actual=${actual%% *}
if [[ $actual != "$expected" ]]; then
  rm -f "$FOLDER/$archive"
  fail "$archive of $version has SHA-256 $actual, expected $expected from $source; nothing of it was run"
fi

mkdir "$FOLDER/bin"
# Only the program: other files of the archive are not extracted.
tar -xzf "$FOLDER/$archive" -C "$FOLDER/bin" nodecfg
rm -f "$FOLDER/$archive"
printf 'nodecfg %s for %s, SHA-256 %s matches %s\n' "$version" "$target" "$actual" "$source"
output binary "$FOLDER/bin/nodecfg"
