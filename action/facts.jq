# From a report, or the lines of one, to the outputs that it has: a name, a tab and a value on each line.

# How many nodes ended in which way.
def ends: [.pools[].nodes[].end.state] | group_by(.) | map({key: .[0], value: length}) | from_entries;

(map(select(.event == "planned")) | first) as $planned
| (map(select(.event == "finished")) | first) as $finished
| if .[0].kind == "Validation" then {counts: .[0].summary}
  elif .[0].event then
    {
      changed: any(.[]; .event == "assigned" or .event == "configMapCreated"),
      "plan-id": $planned.plan.id,
      counts: (if $finished then $finished | ends else null end)
    }
  else .[0] | {changed, "plan-id": .plan.id, counts} end
| to_entries[]
| select(.value != null)
| "\(.key)\t\(.value | if type == "string" then . else tojson end)"
