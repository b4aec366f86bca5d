"""`cep package`: the project as an archive for Spark workers."""

from __future__ import annotations

from pathlib import Path

import click

from cep_pipeline.cli.options import check_folder, writing
from cep_pipeline.cli.terminal import say


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("cep-workers.tar.gz"),
    show_default=True,
    help="The archive to write.",
)
def package(out: Path) -> None:
    """Pack the project and its libraries into an archive that Spark ships to the workers of a cluster.

    The archive holds what is installed here, so driver and workers run the same versions. Nothing is fetched. The
    workers need Spark of the driver's version, Java, and Python of the driver's minor version on a machine of the same
    kind (system and processor). Make the archive again after an upgrade: a worker that runs another version than the
    driver is refused.

    \b
    Examples:
      cep package                                   cep-workers.tar.gz, and how it is used
      cep package --out /shared/cep-workers.tar.gz  a place that every driver reads
    """
    from cep_pipeline.spark.shipping import package_properties, write_package

    check_folder(out)
    with writing(out):
        written = write_package(out)
    size = out.stat().st_size / 1e6
    say(f"{out}: {size:,.0f} MB, the project with {len(written.libraries)} libraries")
    say(f"\nIn pipeline.yaml, for all runs on a cluster:\n  spark:\n    package: {out.absolute()}")
    say("\nOr as Spark properties of a program of your own:")
    for name, value in package_properties(str(out.absolute())).items():
        say(f"  {name}  {value}")
