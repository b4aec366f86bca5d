"""`cep restore` makes a lost catalog anew; `cep rollback` brings an earlier version of a day back."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from cep_pipeline.cli.options import Day, complete, config_option, configuration_options, counted, json_option
from cep_pipeline.cli.terminal import output_console, plain_value, say, say_json


@click.command()
@config_option
@click.option("--replace", is_flag=True, help="There may be a catalog that names tables; it is put aside.")
@json_option
def restore(config: Path, replace: bool, as_json: bool) -> None:
    """Make a catalog that was lost anew from the metadata files of the tables.

    All tables are there again, and all days are stale: `cep run --stale` publishes them anew from their raw files.
    How a warehouse is copied and brought back from a copy: `cep help operations`.

    \b
    Examples:
      cep restore
      cep restore --replace                           the catalog is there, and damaged
    """
    from cep_pipeline.cli.progress import ConsoleObserver
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.warehouse import Warehouse

    place, catalog = Configuration.load(config).warehouse_addresses
    with ConsoleObserver(output_console(stderr=True)) as observer, observer.step("restore") as told:
        rebuilt = Warehouse.rebuild_catalog(place, catalog, replace=replace, told=told)
    if as_json:
        say_json(rebuilt)
        return
    for path in rebuilt.left_out:
        say(f"left out, since it cannot be read: {path}")
    tables = sum(map(len, rebuilt.tables.values()))
    say(
        f"catalog of {rebuilt.location} made from {counted(tables, 'table')} with {counted(rebuilt.days, 'day')}, all "
        f"of them stale: {complete('`cep run --stale`')} publishes them anew from their raw files"
    )


@click.command()
@configuration_options
@click.option("--day", type=Day(), required=True, help="The day.")
@click.option(
    "--run", "to_run", metavar="ID", help="The run to go back to; the one before the present one if not given."
)
@json_option
def rollback(config: Path, stream: str | None, day: date, to_run: str | None, as_json: bool) -> None:
    """Let all tables of a day be what an earlier run had published: events, rejected rows, statistics and matches.

    The files of an earlier run stay for five days (`cep maintain --keep-days`). Where the inputs of the day are not
    those of that run, it shows as stale, with the rollback as the first reason. So do later days that go on from it.
    `cep run` publishes stale days anew: correct the raw files, the schema or the patterns before.

    \b
    Examples:
      cep rollback --day 2013-10-07
      cep rollback --stream us_equity_trades --day 2013-10-07 --run 20131008T020000-a1b2c3
    """
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.run import new_run_id
    from cep_pipeline.warehouse.rollback import roll_back

    configuration = Configuration.load(config)
    name = stream or configuration.stream_names()[0]
    tables = configuration.open_warehouse().open_stream(name)
    report = roll_back(tables, day, to_run, run_id=f"rollback-{new_run_id()}")
    if as_json:
        say_json({"stream": name, **plain_value(report)})
        return
    rows = ", ".join(f"{table} {number:,}" for table, number in report.rows.items()) or "nothing differs"
    say(f"{name} {day}: from run {report.before} back to run {report.run_id}; rows: {rows}")
