"""`cep translate`: queries of other systems as patterns."""

from __future__ import annotations

from pathlib import Path

import click

from cep_pipeline.cli.options import PATH, check_folder, configuration_options, json_option, writing
from cep_pipeline.cli.sources import chosen_stream
from cep_pipeline.cli.terminal import say, say_json


@click.command()
@click.argument("file", type=PATH, metavar="FILE.sql")
@click.option(
    "--from",
    "language",
    type=click.Choice(["match_recognize"]),
    default="match_recognize",
    show_default=True,
    help="The language of FILE.",
)
@click.option("--schema", type=PATH, help="Stream schema (YAML), in place of a configured stream.")
@click.option(
    "--within",
    metavar="WINDOW",
    help="Window of queries that have no WITHIN, such as '10 minutes': longer than any match. Needed where a match may "
    "have any number of rows.",
)
@click.option("--out", type=PATH, help="Write the patterns to this file, such as mine.sase.")
@configuration_options
@json_option
def translate(
    file: Path,
    language: str,
    schema: Path | None,
    within: str | None,
    out: Path | None,
    config: Path,
    stream: str | None,
    as_json: bool,
) -> None:
    """Translate each MATCH_RECOGNIZE of a file of SQL into a pattern that finds the same rows.

    A pattern has one match for each row at which SQL begins one (OUTPUT PREFERRED), with the same rows and MEASURES.
    What a pattern cannot say is refused: with its file, line and column, and what to write. Where engines differ, SQL
    is that of the standard, with the functions of Trino. Rows have no types, so that each variable is of the stream's
    base type. The patterns are checked by the schema, and run as they are.

    SQL sets no bound to the length of a match, and each pattern has one: matches are those of SQL as long as none is
    longer than --within. A comment over each pattern says what else it takes for granted of the rows.

    The page docs/coming_from.md has queries of Flink, Trino, Esper and SASE+ beside their patterns.

    \b
    Examples:
      cep translate --from match_recognize reversals.sql --schema streams/us_equity_trades.yaml
      cep translate reversals.sql --stream us_equity_trades --within '10 minutes' --out reversals.sase
      cep check reversals.sase --schema streams/us_equity_trades.yaml
    """
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.guarded import read_text
    from cep_pipeline.language.match_recognize import translate_match_recognize
    from cep_pipeline.pipeline.configuration import Configuration

    if out is not None:
        check_folder(out)
    if schema is not None:
        events = StreamSchema.load(schema)
    else:
        configuration = Configuration.load(config)
        events = configuration.stream_schema(chosen_stream(configuration, stream))
    translations = translate_match_recognize(read_text(file, "SQL file"), events, str(file), within)
    text = "\n".join(translation.text for translation in translations)
    if out is not None:
        with writing(out):
            out.write_text(text, encoding="utf-8")
        say(f"written to {out}", err=True)
    if as_json:
        say_json(
            [{"statement": one.statement, "assumptions": one.assumptions, "line": one.line} for one in translations]
        )
    elif out is None:
        say(text, nl=False)
