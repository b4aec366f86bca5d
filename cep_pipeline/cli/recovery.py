"""`cep backup` and `cep restore` copy a warehouse and bring it back; `cep rollback` brings an earlier day back."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from cep_pipeline.cli.options import Day, complete, config_option, configuration_options, counted, json_option
from cep_pipeline.cli.terminal import output_console, plain_value, say, say_json
from cep_pipeline.errors import DataError, InputError


@click.command()
@config_option
@click.argument("target", metavar="TARGET")
@click.option("--keep", type=click.IntRange(min=1), help="Moments that stay, this one included; all if not given.")
@click.option("--check", is_flag=True, help="Copy nothing; read all files of the latest moment and compare digests.")
@json_option
def backup(config: Path, target: str, keep: int | None, check: bool, as_json: bool) -> None:
    """Copy the warehouse as of now to TARGET, a folder or an address; runs may go on meanwhile.

    The copy is of one moment: catalog, tables, and the records of runs, plans and days. Each file is listed with its
    size and SHA-256. Files that an earlier backup has copied to TARGET are not copied again, and a backup that was
    stopped goes on when it is given again. Raw files and pipeline.yaml are not part of the warehouse.

    \b
    Examples:
      cep backup /mnt/backup/cep
      cep backup /mnt/backup/cep --keep 14            each night: the last fourteen stay
      cep backup s3://bucket/cep
      cep backup /mnt/backup/cep --check              is the latest one whole?
    """
    from cep_pipeline.cli.progress import ConsoleObserver
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.run import new_run_id
    from cep_pipeline.warehouse import backup as backups
    from cep_pipeline.warehouse.warehouse import absolute_place

    warehouse = Configuration.load(config).open_warehouse()
    with ConsoleObserver(output_console(stderr=True)) as observer:
        if check:
            place = absolute_place(target)
            moment = backups.read_moment(place)
            with observer.step("check") as told:
                faults = backups.check(place, moment, told)
            if as_json:
                say_json({"moment": moment.name, "files": len(moment.files), "damages": faults})
            else:
                for fault in faults:
                    say(f"damage: {fault}")
            if faults:
                raise DataError(f"{counted(len(faults), 'file')} of the backup {moment.name} damaged: make another one")
            if not as_json:
                say(f"no damage; {counted(len(moment.files), 'file')} of the moment {moment.name} are as listed")
            return
        with observer.step("backup") as told:
            report = warehouse.backup(target, run_id=f"backup-{new_run_id()}", keep=keep, told=told)
    if as_json:
        say_json(report)
        return
    say(
        f"moment {report.moment}: {counted(report.files, 'file')} ({report.size_bytes / 1e6:,.1f} MB), of which "
        f"{report.copied_files:,} ({report.copied_bytes / 1e6:,.1f} MB) are new"
        + (f"; {counted(report.removed_moments, 'earlier moment')} removed" if report.removed_moments else "")
    )


@click.command()
@config_option
@click.argument("source", metavar="[BACKUP]", required=False)
@click.option("--to", "location", metavar="WAREHOUSE", help="Another folder than the configured warehouse.")
@click.option(
    "--moment",
    metavar="NAME",
    help="A moment of the backup, as in 20260105T031500Z; the latest whole one if not given.",
)
@click.option("--replace", is_flag=True, help="The warehouse may hold tables: they become what they were.")
@click.option("--rebuild-catalog", is_flag=True, help="Make a lost catalog anew from the tables, without a backup.")
@json_option
def restore(
    config: Path,
    source: str | None,
    location: str | None,
    moment: str | None,
    replace: bool,
    rebuild_catalog: bool,
    as_json: bool,
) -> None:
    """Make the warehouse what it was at a moment of BACKUP, at its place or at another one.

    Each file is compared with its digest; files that are there and whole are not copied. The catalog is put in force
    last, and the one that was there is kept beside it. A restore that was stopped goes on when it is given again. Days
    that were published after the moment are published again by `cep run`, with the same ids.

    --rebuild-catalog is for a warehouse whose catalog is lost, when there is no backup: the tables are there again, all
    days are stale, and `cep run --stale` publishes them anew from their raw files.

    \b
    Examples:
      cep restore /mnt/backup/cep                     into an empty warehouse
      cep restore /mnt/backup/cep --replace           mend a damaged one, or go back
      cep restore /mnt/backup/cep --to /srv/copy      at another place
      cep restore --rebuild-catalog
    """
    from cep_pipeline.cli.progress import ConsoleObserver
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.warehouse import Warehouse

    if (source is None) != rebuild_catalog or (rebuild_catalog and moment):
        raise InputError("give either a BACKUP, or --rebuild-catalog")
    place, catalog = (location, None) if location else Configuration.load(config).warehouse_addresses
    with ConsoleObserver(output_console(stderr=True)) as observer, observer.step("restore") as told:
        if source is None:
            rebuilt = Warehouse.rebuild_catalog(place, catalog, replace=replace, told=told)
        else:
            report = Warehouse.restore(place, catalog, backup=source, moment=moment, replace=replace, told=told)
    if as_json:
        say_json(rebuilt if source is None else report)
        return
    if source is not None:
        for passed in report.passed:
            say(f"left out: {passed}")
        say(
            f"{report.location} is as of {report.moment}: {counted(report.files, 'file')}, {report.copied_files:,} of "
            f"them copied. {complete('`cep verify` checks all of it, `cep run` goes on from there')}"
        )
        return
    for path in rebuilt.left_out:
        say(f"left out, since it cannot be read: {path}")
    tables = sum(map(len, rebuilt.tables.values()))
    say(
        f"catalog of {rebuilt.location} made from {counted(tables, 'table')} with {counted(rebuilt.days, 'day')}, all "
        f"of them stale: {complete('`cep run --stale`')} publishes them anew from their raw files.\n"
        "What `cep forget` has erased is not known any more: give each `cep forget` again before that"
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
