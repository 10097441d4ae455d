# Pools whose worst change is at least $limit, unknown or refused. Reads the report of diff.

def rank: {none: 0, restart: 1, drain: 2, replace: 3, never: 4}[.] // 5;

[
  (.pools // [])[]
  | select(.change != "unchanged")
  | select(.risk.unknown or .risk.refused or (.risk.worst != null and (.risk.worst | rank) >= ($limit | rank)))
  | "\(.name) (\(.risk.worst // "unknown risk"))"
]
| join(", ")
