"""The exact search for the cheapest order or tree of one clause, and what its cost model charges for sets of variables.

| module | content |
| --- | --- |
| `set_search` | the cheapest order and the cheapest tree of every set of up to 22 variables, by compiled loops |
| `sums` | what sets of a clause's variables cost, as sums that compiled code takes for one snapshot after another |

Trees over given leaves are searched by `algorithms.zstream`. Above the budget of exact search
`algorithms.dynamic_programming` takes a known plan.
"""
