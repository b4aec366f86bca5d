"""`cep maintain`, `verify` and `restore` tidy, check and bring back tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from cep_pipeline.cli.options import config_option, configuration_options, counted, json_option
from cep_pipeline.cli.terminal import ConsoleObserver, complete, output_console, say, say_json
from cep_pipeline.errors import DataError


@click.command()
@config_option
@click.option(
    "--grace-hours",
    type=click.FloatRange(min=1 / 6),
    default=24.0,
    show_default=True,
    help="Files younger than this are left alone.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Snapshots younger than this are kept.",
)
@json_option
def maintain(config: Path, grace_hours: float, keep_days: float, as_json: bool) -> None:
    """Expire old snapshots, remove files that no snapshot names (of failed and killed runs), and merge small files.

    Files are merged within a day, with the same rows in the same order, up to a million rows. It may run beside other
    runs. The files that were merged stay until their snapshots are as old as --keep-days. A table with damaged metadata
    is named with what to do and left as it is; the command then ends with exit code 3.

    \b
    Examples:
      cep maintain
      cep maintain --grace-hours 1 --keep-days 0      free what can be freed now
    """
    from cep_pipeline.pipeline.configuration import Configuration

    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.maintain(grace_s=grace_hours * 3600, keep_snapshots_s=keep_days * 86_400)
    if as_json:
        say_json(report)
        return
    console = output_console()
    for table, done in report.by_table.items():
        if any(done.values()):
            console.print(f"{table}: " + ", ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in done.items()))
    console.print(
        f"removed {counted(report.removed_files, 'file')} ({report.removed_bytes / 1e6:,.1f} MB), "
        f"expired {counted(report.expired_snapshots, 'snapshot')}, "
        f"merged small files: {counted(report.merged_files, 'file')} fewer"
    )
    for damage in report.damages:
        say(f"damage: {damage}")
    if report.damages:
        raise DataError(
            f"{counted(len(report.damages), 'damaged table')} in {warehouse.location}, left as before; the others are "
            "done. `cep verify` names all damages"
        )


@click.command()
@configuration_options
@click.option("--deep", is_flag=True, help="Read all data, and compare each file with its digest.")
@json_option
def verify(config: Path, stream: str | None, deep: bool, as_json: bool) -> None:
    """Check that all that is published is there, whole and as its records say.

    The way goes from the catalog to metadata, snapshots, manifests and data files: their sizes, their footers, and the
    rows that the records of each day tell of. Runs may go on meanwhile. Each damage is a line with what to do; the
    command then ends with exit code 3.

    \b
    Examples:
      cep verify
      cep verify --deep                               also read all data, and compare its digests
      cep verify --stream us_equity_trades --deep
    """
    from cep_pipeline.pipeline.configuration import Configuration

    warehouse = Configuration.load(config).open_warehouse()
    streams = [stream] if stream else None
    with ConsoleObserver(output_console(stderr=True)) as observer, observer.step("verify") as told:
        report = warehouse.verify(streams, deep=deep, told=told)
    damages = [replace(damage, remedy=complete(damage.remedy)) for damage in report.damages]
    if as_json:
        say_json(replace(report, damages=tuple(damages)))
    else:
        for damage in damages:
            say(f"damage: {damage}")
    looked = (
        f"{counted(report.tables, 'table')}, {counted(report.files, 'data file')} ({report.size_bytes / 1e6:,.1f} MB), "
        f"{counted(report.rows, 'row')}"
    )
    if report.damages:
        raise DataError(f"{counted(len(report.damages), 'damage')} in {warehouse.location}; looked at {looked}")
    if not as_json:
        say(f"no damage; looked at {looked}")


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
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.warehouse import Warehouse

    configuration = Configuration.load(config)
    place, catalog = configuration.warehouse_location, configuration.settings.warehouse.catalog
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
