"""The searches for the cheapest order or tree of one clause, in two tiers.

| | general tier | compiled tier |
| --- | --- | --- |
| used for | any plan: `cep.plan`, the plan of a day | one pattern planned again and again (`planning.replanning`) |
| orders | up to 22 variables | up to 8 variables |
| trees | up to 22 variables; over given leaves any number | over given leaves, up to 8 variables |
| planners | all | greedy, dp_left_deep, zstream, zstream_ordered |
| modules | `set_search`; over given leaves `algorithms.zstream` | `clause_search` over `sums` |
| speed | | 5 to 8 times as fast, with cold caches |

The compiled tier leaves to the general one: latency, trees by a cost that tells linear trees apart, costs that are no
sums of a clause's numbers, and plans with two sides so close that they have to be measured anew. Both tiers find the
same plans; where two ways cost the same, rounding may put either first.

The compiled tier is there for the adaptive loop, which checks and plans between any two stretches of detection. With
caches swept in between as detection sweeps them, one core of a shared machine, deciding and planning by invariants took

| stream, planner, variables | detection between two decisions | with the compiled tier | without it |
| --- | --- | --- | --- |
| traffic, zstream, 4 | 28 ms | 0.4 % of the time | 1.8 % |
| traffic, zstream, 8 | 63 ms | 0.5 % | 2.2 % |
| stocks, zstream, 4 | 136 ms | 0.1 % | 0.2 % |

and the patent's finding is less than 1 %. Above the budget of exact search `algorithms.dynamic_programming` takes
a known plan.
"""
