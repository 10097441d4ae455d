# shellcheck shell=bash
# What a step says to the runner: workflow commands on standard output, outputs in the file of GITHUB_OUTPUT. Sourced.
#
# All scripts here run in bash 3.2 too, which is the bash of macOS.

# Text after the second `::` of a workflow command.
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

# Ends the step.
fail() {
  printf '::error title=nodecfg::%s\n' "$(escaped "$1")"
  exit 1
}

# 32 characters that nobody can know beforehand.
random() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# output NAME VALUE: a value may have lines, and none of them can end it early.
output() {
  local delimiter
  delimiter="end-$(random)"
  printf '%s<<%s\n%s\n%s\n' "$1" "$delimiter" "$2" "$delimiter" >>"$GITHUB_OUTPUT"
}

# Whether a tool is there; the step ends when it is not.
need() {
  command -v "$1" >/dev/null || fail "$1 is not installed on this runner, and nodecfg's action needs it${2:+ to $2}"
}
