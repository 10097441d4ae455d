# The pools whose worst change is as bad as $limit or worse, or not known. Needs the report of diff.

def rank: {none: 0, restart: 1, drain: 2, replace: 3, never: 4}[.] // 5;

[
  (.plan.pools // .pools // [])[]
  | . as $pool
  | (.disruption // .risk // {})
  | select(.refused or (.unknown // 0) > 0 or (.worst != null and (.worst | rank) >= ($limit | rank)))
  | "\($pool.name) (\(if .worst then .worst else "not known" end))"
]
| join(", ")
