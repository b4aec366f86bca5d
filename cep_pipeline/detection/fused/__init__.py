"""The columnar kernel for skip_till_any_match: loops over sorted columns, batch by batch, depth first.

No partial matches are stored but a batch a variable, so that memory does not grow with the number of matches. The
modules in the order in which data flows, from a plan and a slice to blocks of matches:

- `mechanism`: the record; clause after clause it starts a run by an order (`clause`), or with lists (the package
  `kleene`);
- `clause`: one run by an order, from its levels to the blocks that the slice owns;
- `levels`: a plan's levels over a slice, as views, ranges and tests, with what they count; `constraints`: the index
  ranges that order and window give a level, and conjuncts as tests of columns; `negation`: negated variables as early
  range checks, or by searches of ranges; `reduction`: events in no match are removed first;
- `programs`: the shape of a plan, which is everything but its data, as terms and as words that `join_kernel` reads;
- `kernel`: a shape bound to arrays, run block by block.
"""
