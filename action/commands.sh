# shellcheck shell=bash
# Functions for messages and outputs of a step: workflow commands on standard output, and the file GITHUB_OUTPUT.
# Sourced first by every script.
#
# All scripts in this folder also run in bash 3.2, the bash of macOS.

# Leaves the checkout: tools such as cargo, rustup and git obey files of their working directory, which the author of a
# pull request chooses. Only nodecfg itself runs there, because paths in inputs start there.
checkout=$PWD
cd "${FOLDER:-${RUNNER_TEMP:?}}" || exit

# Prints the absolute path of an input.
in_checkout() {
  case $1 in
    /*) printf '%s' "$1" ;;
    *) printf '%s/%s' "$checkout" "$1" ;;
  esac
}

# Escapes the text of a workflow command.
escaped() {
  local text=$1
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '%s' "${text//$'\n'/%0A}"
}

notice() {
  printf '::notice title=nodecfg::%s\n' "$(escaped "$1")"
}

warning() {
  printf '::warning title=nodecfg::%s\n' "$(escaped "$1")"
}

# Prints an error and ends the step.
fail() {
  printf '::error title=nodecfg::%s\n' "$(escaped "$1")"
  exit 1
}

# Prints 32 unpredictable characters.
random() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# output NAME VALUE: sets an output of the step. The random delimiter lets a value contain any lines.
output() {
  local delimiter
  delimiter="end-$(random)"
  printf '%s<<%s\n%s\n%s\n' "$1" "$delimiter" "$2" "$delimiter" >>"$GITHUB_OUTPUT"
}

# need TOOL [PURPOSE]: ends the step if a tool is missing.
need() {
  command -v "$1" >/dev/null || fail "$1 is missing on this runner; install it: the nodecfg action needs it${2:+ to $2}"
}
