"""Kleene closure under skip_till_any_match, as a layer above the columnar kernel.

The kernel finds the events of a clause's single variables; behind each of its partial matches the lists of one Kleene
variable after another are grown, depth first, so that memory does not grow with the number of lists:

- `growing`: the run of one clause, from the kernel's partial matches to blocks of matches that the slice owns, or to
  the number of matches without any list being made. Lists are grown, and negated variables asked of complete matches,
  by compiled code (`growing_kernel`) on the conditions and rules of all kernels over instances (`conditions`);
- `list_conditions`: the conditions on lists, by when they can be decided.
"""
