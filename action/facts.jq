# Outputs of the action, from a report or the lines of one: per line a name, a tab and a value.

# Result of a node, or the reason why it is unchanged.
def how: if .end.state == "leftAlone" then .end.why.kind else .end.state end;

# Number of nodes per result.
def ends: [.pools[].nodes[] | how] | group_by(.) | map({key: .[0], value: length}) | from_entries;

(map(select(.event == "planned")) | first) as $planned
| (map(select(.event == "finished")) | first) as $finished
| if .[0].kind == "Validation" then {counts: .[0].summary}
  elif .[0].event then
    {
      changed: any(.[]; .event == "assigned" or .event == "configMapCreated"),
      "plan-id": $planned.cluster.plan,
      counts: (if $finished then $finished | ends else null end)
    }
  else
    .[0] | {changed, "plan-id": .cluster.plan, counts: (.counts + if .cluster then {cluster: .cluster.counts} else {} end)}
  end
| to_entries[]
| select(.value != null)
| "\(.key)\t\(.value | if type == "string" then . else tojson end)"
