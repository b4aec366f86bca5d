"""The exact search for the cheapest order or tree of one clause of up to 22 variables, by compiled loops over all sets.

Trees over given leaves are searched by `algorithms.zstream`. Above the budget of exact search
`algorithms.dynamic_programming` takes a known plan.
"""
