#!/usr/bin/env bash
# Downloads the release for this runner and compares its checksum before anything of it runs.
set -euo pipefail
# shellcheck source=action/commands.sh
source "$GITHUB_ACTION_PATH/action/commands.sh"

system="$(uname -s) $(uname -m)"
case $system in
  "Linux x86_64") target=x86_64-unknown-linux-musl ;;
  "Linux aarch64" | "Linux arm64") target=aarch64-unknown-linux-musl ;;
  "Darwin x86_64") target=x86_64-apple-darwin ;;
  "Darwin arm64") target=aarch64-apple-darwin ;;
  *) fail "no release of nodecfg runs on $system; \`build: true\` builds it from source" ;;
esac

version=$INPUT_VERSION
if [[ -z $version ]]; then
  # The action and its program are one release. The action's commit so pins which version is downloaded, and not what that is:
  # the files of a release can be replaced. Input sha256 pins those.
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml" | head -n 1)
fi

base=${INPUT_RELEASE_URL%/}
if [[ -z $base ]]; then
  # The runner keeps actions under _actions/OWNER/REPOSITORY/REF. GITHUB_ACTION_REPOSITORY names that of the outermost action.
  case $GITHUB_ACTION_PATH in
    */_actions/*/*/*)
      place=${GITHUB_ACTION_PATH##*/_actions/}
      owner=${place%%/*}
      place=${place#*/}
      base="$GITHUB_SERVER_URL/$owner/${place%%/*}/releases/download"
      ;;
    *) fail "an action of a local path has no releases: set release-url, or \`build: true\`" ;;
  esac
fi
case $base in
  https://*) protocol='=https' ;;
  # A stand-in on this machine.
  http://127.0.0.1:* | http://localhost:*) protocol='=http' ;;
  *) fail "input release-url: $base is no https:// URL" ;;
esac

# download NAME FILE
download() {
  local url="$base/v$version/$1"
  if ! curl --proto "$protocol" --silent --show-error --fail --location --retry 3 --max-time 300 --output "$2" "$url"; then
    fail "cannot download $url: is $version a release, and can this runner reach it? release-url names a mirror, and \
\`build: true\` builds nodecfg from source"
  fi
}

archive="nodecfg-$target.tar.gz"
download "$archive" "$FOLDER/$archive"
wanted=$INPUT_SHA256
source="input sha256"
if [[ -z $wanted ]]; then
  source="SHA256SUMS of the release"
  download SHA256SUMS "$FOLDER/SHA256SUMS"
  wanted=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1; exit }' "$FOLDER/SHA256SUMS")
  [[ -n $wanted ]] || fail "SHA256SUMS of $base/v$version does not have $archive"
fi
if command -v sha256sum >/dev/null; then
  found=$(sha256sum <"$FOLDER/$archive")
else
  found=$(shasum -a 256 <"$FOLDER/$archive")
fi
found=${found%% *}
if [[ $found != "$wanted" ]]; then
  rm -f "$FOLDER/$archive"
  fail "$archive of $version has SHA-256 $found, and $source says $wanted: nothing of it was run"
fi

mkdir "$FOLDER/bin"
# The program alone: nothing else of an archive may land anywhere.
tar -xzf "$FOLDER/$archive" -C "$FOLDER/bin" nodecfg
rm -f "$FOLDER/$archive"
printf 'nodecfg %s for %s, SHA-256 %s as %s says\n' "$version" "$target" "$found" "$source"
output binary "$FOLDER/bin/nodecfg"
