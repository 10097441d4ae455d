# From the lines of a sync or verify to markdown for the job summary.

# Text of others between tags.
def code: "<code>" + (gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub("\\|"; "&#124;") | gsub("[\r\n]+"; " ")) + "</code>";

def target: .source.configMap.name // "the local configuration";

# What is worth a row of its own; the others are counted.
def amiss: .end.state | IN("converged", "leftAlone", "gone") | not;

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
    "| pool | nodes | converged | amiss |", "|---|--:|--:|--:|",
    ($finished.pools | to_entries[] | "| \(.key | code) | \(.value.nodes | length) | \(
      [.value.nodes[] | select(.end.state == "converged")] | length) | \([.value.nodes[] | select(amiss)] | length) |"),
    "",
    ([$finished.pools | to_entries[] | .key as $pool | .value.nodes[] | select(amiss) | {$pool} + .]
    | if length > 0 then
        "| node | pool | to | state | why |", "|---|---|---|---|---|",
        (.[0:50][] | "| \(.node | code) | \(.pool | code) | \(.to | target | code) | \(.end.state) | \(why | if . == "" then "" else code end) |"),
        (if length > 50 then "", "and \(length - 50) more; the report has them all" else empty end), ""
      else empty end)
  else empty end),
  (if $planned then "<sub>plan \($planned.plan.id | code)</sub>" else empty end)
