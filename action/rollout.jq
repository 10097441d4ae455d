# From the lines of a sync or verify to markdown for the job summary.

# Text of others between tags.
def code: "<code>" + (gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub("\\|"; "&#124;") | gsub("[\r\n]+"; " ")) + "</code>";

def target: .source.configMap.name // "the local configuration";

# How a node ended, or why it was left alone.
def how: if .end.state == "leftAlone" then .end.why.kind else .end.state end;

# What is worth a row of its own; the others are counted.
def amiss: how | IN("converged", "adopted", "paused", "deleting", "gone") | not;

# Nodes in numbers: `2 converged, 1 paused`.
def ends:
  map(how) | group_by(.)
  | map("\(length) \(.[0] | gsub("(?<upper>[A-Z])"; " \(.upper | ascii_downcase)"))") | join(", ");

def why:
  .end
  | if .state == "failed" then (.failure | if type == "string" then . else (.error? // .reason? // tojson) end | tostring)
    elif .state == "refused" then .error
    else "" end;

(map(select(.event == "started")) | first) as $started
| (map(select(.event == "planned")) | first) as $planned
| (map(select(.event == "finished")) | first) as $finished
| "### nodecfg \($command): \(
    if $finished == null then "ended early" elif $finished.complete then "done" else "not every node is where it should be" end
  )\n",
  (if $started then
    "Fleet \($started.fleet | code)\(if $started.commit then " at \($started.commit[0:10] | code)" else "" end), on \(
      $started.server | code), exit code \($exit).\n"
  else empty end),
  (if $finished then
    "| pool | nodes | how they ended |", "|---|--:|---|",
    ($finished.pools | to_entries[] | "| \(.key | code) | \(.value.nodes | length) | \(.value.nodes | ends) |"),
    "",
    ([$finished.pools | to_entries[] | .key as $pool | .value.nodes[] | select(amiss) | {$pool} + .]
    | if length > 0 then
        "| node | pool | to | state | why |", "|---|---|---|---|---|",
        (.[0:50][] | "| \(.node | code) | \(.pool | code) | \(.to | target | code) | \(how) | \(why | if . == "" then "" else code end) |"),
        (if length > 50 then "", "and \(length - 50) more; the report has them all" else empty end), ""
      else empty end)
  else empty end),
  (if $planned.cluster then "<sub>plan \($planned.cluster.plan | code)</sub>" else empty end)
