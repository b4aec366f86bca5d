"""Kleene closure under skip_till_any_match, as a layer above the columnar kernel.

The kernel finds the events of a clause's single variables; each of its partial matches is extended by the lists of one
Kleene variable after another, depth first in bounded pieces, so that memory does not grow with the number of lists. The
modules in the order in which data flows:

- `clause`: the run of one clause, from the kernel's partial matches to blocks of lists that the slice owns; or the
  number of matches without any list being made;
- `bindings`: the clause without its lists and negated variables, which the kernel runs; partial matches over lists,
  many at once, with the rules of order, window and agreement between two events, and the negated variables that are
  asked of complete matches;
- `extension`: all lists of one Kleene variable behind each partial match, element by element;
- `compiled_lists`: the same for one Kleene variable in compiled code (`listing_kernel`), where conditions allow it.
"""
