"""Kleene closure under skip_till_any_match, as a layer above the columnar kernel.

The kernel finds the events of a clause's single variables; each of its partial matches is extended by the lists of one
Kleene variable after another, depth first in bounded pieces, so that memory does not grow with the number of lists.
"""
