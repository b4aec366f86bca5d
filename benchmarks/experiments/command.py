"""`cep experiment`: the papers' experiments on our own data, each a page with tables, charts and findings."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.command import shown_progress
from benchmarks.experiments import EXPERIMENTS
from cep_pipeline.cli.options import check_folder, counted
from cep_pipeline.cli.terminal import Terminal, say
from cep_pipeline.errors import InputError


@click.command()
@click.argument("name", type=click.Choice(EXPERIMENTS))
@click.option("--full", is_flag=True, help="The paper's extent, in an hour or more, instead of one of minutes.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("../shared/data"),
    show_default=True,
    help="Folder with us_equity_trades/DATE/trades.csv.gz and aarhus_traffic; generated events take the place "
    "of what is missing.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Page to write; its charts go into the folder of the same name.  [default: NAME.md]",
)
@click.option("--fresh", is_flag=True, help="Measure everything anew, also what an earlier run has finished.")
def experiment(name: str, full: bool, seed: int, data: Path, out: Path | None, fresh: bool) -> None:
    """Run one of the papers' experiments and write its page: findings, each with a verdict, charts and tables.

    \b
      lazy_nfa  DEBS 2015, section 7: computations, throughput and peak instances of the eager NFA, of chain
                NFAs in all orders and of the tree NFA against the frequency of the rare event, for its three places
                in the sequence; memory over growing input; and a stream whose rare type changes every 100,000 events
      nfab      SIGMOD 2008, section 6: throughput of NFA^b under three predicates, two strategies and growing windows,
                cost against output complexity, basic against backtrack, non-overlapping results, merging of runs
      join_plans
                PVLDB 2018, section 7: throughput and memory of all planners' plans by pattern type and size, over 200
                generated stocks (2,100 with --full) and over traffic; cost against throughput; cost and planning time
                of patterns of up to 22 events; throughput against latency; selection strategies
      adaptation
                the acep-invariants patent, in the product's loop: static, unconditional, constant thresholds (relative,
                absolute, ratio) and invariants, t and d tuned on other stretches and in hindsight; traffic whose rates
                are exchanged over 1 : 500, stocks that drift, and the real month; 4 to 64 decisions a window, with and
                without the price of a switch; throughput of all seconds, estimating among them. Twenty minutes
      multi_pattern
                the MCEP patent, section 6: throughput gain of shared plans over plans of each pattern by itself,
                against the number of patterns (100; 1,000 with --full), their size, search time, windows, density
                and rate difference; simulated annealing and tabu search, their neighbourhoods, prefixes and
                subexpressions, against SH, RE, SPASS and MOTTO; types that are exchanged

    Every finished measurement is kept in NAME.cells.jsonl beside the page: a run that was stopped goes on where it
    was, and one that asks for the same again only writes the page. Measurements of other seeds, data or code are not
    mixed in.

    \b
    Examples:
      cep experiment lazy_nfa
      cep experiment nfab --full --out nfab.md
      cep experiment join_plans --seed 3
      cep experiment adaptation --full --out adaptation.md
      cep experiment multi_pattern --out multi_pattern.md
      cep experiment lazy_nfa --seed 2 --data nowhere       over generated trades
    """
    from benchmarks.experiments import experiment_named
    from benchmarks.experiments.experiment import Request, run_experiment, store_beside

    page = out if out is not None else Path(f"{name}.md")
    if page.suffix != ".md":
        raise InputError(f"{page}: the page is Markdown: name it .md")
    check_folder(page)
    chosen, request = experiment_named(name), Request(full, seed, data)
    store = store_beside(page, chosen, request)
    if fresh:
        store.forget()
    console = Terminal(stderr=True)
    if len(store):
        console.print(f"{counted(len(store), 'measurement')} of an earlier run in {store.path} (--fresh: anew)")
    with shown_progress(console, name) as progress:
        made = run_experiment(chosen, request, store, progress)
    made.write(page)
    for line in made.text.split("## Pictures")[0].split("\n"):
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("Of "):
            say(line)
        elif cells[-2:-1] and cells[-2].startswith("**"):
            claim = cells[2].replace("\\", "")
            say(f"  {cells[1]:>2}. {cells[-2].strip('*')}: {claim}")
    say(f"written to {page}")
