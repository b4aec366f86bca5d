"""Detection: from a plan and the events of a slice to the rows of the matches table.

The modules in the order in which a call of `cep.detect` meets them:

- `detect`: the public functions `detect` and `detect_batches`, and `detect_slice` for tasks;
- `mechanisms`: the registry of mechanisms, which of them runs a pattern, their record and functions, and the counters
  they fill; `clause_runs`: a pattern clause after clause, as all mechanisms run it, and a slice part after part, so
  that memory is bounded;
- `planned`: plans that suit the mechanisms chosen, and whether one is worth making;
- `room`: memory for what is held at a time; `limits`: limits of one pattern's matches and time;
- `outputs`: one pattern over one slice in each form of output; `output_policy`: OUTPUT and CONSUME;
- `ordering`: matches in the order of the table; `matches`: their rows, with the columns of RETURN; `match_ids`: their
  identities; `results`: the tables that are returned, and the events of matches.

The mechanisms:

- `fused`: one compiled join over sorted columns, with `kleene` above it for lists;
- `network`: event at a time, by the orders or trees of one plan or of many, in the pattern's order, or in an order that
  is found on the way: six mechanisms;
- `nfab`: runs with a match buffer, for all selection strategies;
- `conditions`: programs of conditions, and partial matches, for all mechanisms that go event by event;
- `negated_structures`: what all mechanisms do behind a match for a negation of several events;
- `counting`, `summaries`: semiring sweeps that count matches, or put them together for SUMMARIZE, and list none;
- `compressed`: all matches as one graph, for the outputs `count` and `compressed`;
- `route`, `costs`: which of them makes what is asked of many matches, and why.

A driver hands a compiled kernel one array of 64-bit numbers, its *words*: addresses of arrays, sizes, and codes. Each
kernel's words are named once, in a module `words` (or `codes`) that kernel and driver import. A kernel's own module is
imported only to compile it, which is why it is a file of its own.
"""

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # the names of the package, each imported when it is first used
    from cep_pipeline.detection.mechanisms import MECHANISMS as MECHANISMS

__getattr__, __dir__ = lazy_names(__name__)
