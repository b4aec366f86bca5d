"""`pipeline.yaml`: what is accepted, and errors that name file, line and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cep_pipeline.adaptation.decisions import ConstantThreshold, InvariantBased, Static
from cep_pipeline.adaptation.distance import Fixed
from cep_pipeline.detection.compressed.buffers import pattern_of, statement_of
from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.patterns.pattern import Window
from cep_pipeline.pipeline.configuration import AdaptationSettings, Configuration, read_parameter
from cep_pipeline.pipeline.plans import statements_of

SCHEMA = """\
name: trades
base_type: Trade
type_attribute: symbol
timezone: UTC
timestamp: timestamp
attributes: {symbol: string, price: float64}
source: {format: csv, path: "{day:%Y-%m-%d}.csv"}
"""
PIPELINE = """\
streams:
  trades:
    schema: trades.yaml
    data: raw
    pattern_sets:
      market: {file: market.sase, parameters: {tech: "AAPL, MSFT"}}
"""
PATTERNS = "NAME rise PATTERN SEQ(Trade a, Trade b) WHERE a.symbol IN $tech AND b.price > a.price WITHIN 1 second"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trades.yaml").write_text(SCHEMA)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "market.sase").write_text(PATTERNS)
    return tmp_path


def test_paths_are_relative_to_the_configuration(folder: Path) -> None:
    configuration = Configuration.load(folder / "pipeline.yaml")
    stream = configuration.stream("trades")
    assert stream.data == str(folder / "raw")
    assert configuration.warehouse_location == str(folder / "warehouse")
    assert [pattern.name for pattern in stream.pattern_set("market").patterns] == ["rise"]
    assert stream.pattern_set("market").patterns[0].parameters == (("tech", ("AAPL", "MSFT")),)


def test_data_folder_of_a_call_goes_before_the_configured_one(folder: Path) -> None:
    assert Configuration.load(folder / "pipeline.yaml").stream("trades", data=folder / "x").data == str(folder / "x")


def test_the_version_follows_statements_and_parameters_but_not_layout(folder: Path) -> None:
    def version() -> str:
        return Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_set("market").version

    first = version()
    (folder / "market.sase").write_text("-- a comment\n" + PATTERNS.replace(" WHERE", "\nWHERE"))
    assert version() == first
    (folder / "market.sase").write_text(PATTERNS.replace("1 second", "2 seconds"))
    assert version() != first
    (folder / "market.sase").write_text(PATTERNS)
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("MSFT", "IBM"))
    assert version() != first


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (PIPELINE.replace("pattern_sets", "patern_sets"), 5, "patern_sets"),
        (PIPELINE + "planning:\n  planer: greedy\n", 8, "did you mean 'planner'"),
        (PIPELINE + "statistics: {window: an hour}\n", 7, "an hour"),
        (PIPELINE + "statistics:\n  epsilon: 0\n", 8, "greater than or equal to 0.001 (found 0)"),
        (PIPELINE + "statistics: {windows: 1 hour}\n", 7, "did you mean 'window'"),
        (PIPELINE + "adaptation: {decision: sometimes}\n", 7, "static, unconditional, constant_threshold, invariant"),
        (PIPELINE + "adaptation:\n  distance: far\n", 8, "there are: a number, average_relative_difference"),
        (PIPELINE + "adaptation:\n  distance: -0.1\n", 8, "a finite number, 0 or more, not -0.1"),
        (PIPELINE + "adaptation: {k: 0}\n", 7, "write 1, 2, …, planner or all (found 0)"),
        (PIPELINE + "adaptation: {k: some}\n", 7, "write 1, 2, …, planner or all (found 'some')"),
        (PIPELINE + "adaptation: {threshold: 0}\n", 7, "greater than 0"),
        (PIPELINE + "adaptation: {minimum_gain: -1}\n", 7, "greater than or equal to 0"),
        (PIPELINE + "adaptation: {distances: 1}\n", 7, "did you mean 'distance'"),
        (PIPELINE + "warehouse:\n  properties:\n    s3.secret-access-key: x\n", 8, "set it in the environment"),
        (PIPELINE + "warehouse: {properties: {adls.sas-token: x}}\n", 7, "adls.sas-token is a credential"),
        (PIPELINE + "statistics: 1 hour\n", 7, "should be a mapping (name: value) (found '1 hour'); write for example"),
        (
            PIPELINE + "statistics: {epsilon: low}\n",
            7,
            "should be a number (found 'low'); write for example `epsilon: 0",
        ),
        (
            PIPELINE + "statistics: {window: 60}\n",
            7,
            "text, in quotes (found 60); write for example `window: 1 hour`",
        ),
        (PIPELINE + "statistics: {window: 2 weeks}\n", 7, "write for example `window: 1 hour`"),
        (
            PIPELINE + "limits: {max_matches: -5}\n",
            7,
            "or equal to 0 (found -5); write for example `max_matches: 100000000`",
        ),
        (PIPELINE + "limits: {max_matches: yes}\n", 7, "a number; YAML reads yes, no, on and off as true and false"),
        (PIPELINE + "retention: 3\n", 7, "retention: unknown setting; known are streams, warehouse"),
        (
            PIPELINE.replace("trades.yaml", "[trades.yaml]"),
            3,
            "text (found a list); write for example `schema: streams",
        ),
        (PIPELINE.replace("schema:", "schem:"), 3, "did you mean 'schema'"),
        (PIPELINE.replace("  trades:", "  trades-2:"), 2, "streams.trades-2: 'trades-2' is no name"),
        (PIPELINE + "streams: {}\n", 7, "'streams' is set twice, first in line 1"),
        (PIPELINE + "no: {}\n", 7, 'YAML reads the name no as true or false; write it in quotes: "no"'),
        ("streams: {}\n", 1, "at least 1 item"),
        ("warehouse: {}\n", 1, "streams: this setting is required"),
        ("streams: [\n", 2, "no valid YAML"),
        ("just text\n", 1, "mapping"),
    ],
)
def test_a_fault_names_file_line_and_setting(folder: Path, text: str, line: int, words: str) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Configuration.load(path)
    assert f"{path}:{line}" in str(caught.value)
    assert words in str(caught.value)


def test_variables_of_the_environment_stand_for_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "pipeline.yaml"
    text = PIPELINE.replace("data: raw", "data: ${RAW:-raw}/of")
    spark = "limits: {max_matches: '${MOST:-5}'}\nspark: {properties: {a: 'x ${ONE:-} y'}}"
    path.write_text(f"{text}warehouse:\n  catalog: ${{CATALOG:-}}\n{spark}\n")
    for name in ("RAW", "CATALOG", "MOST", "ONE"):
        monkeypatch.delenv(name, raising=False)
    settings = Configuration.load(path).settings
    assert (settings.streams["trades"].data, settings.warehouse.catalog) == ("raw/of", None)
    assert (settings.limits.max_matches, settings.spark.properties) == (5, {"a": "x  y"})
    for name, value in {"RAW": "s3://b", "CATALOG": "sqlite:////x: y # z", "MOST": "2", "ONE": "1"}.items():
        monkeypatch.setenv(name, value)
    settings = Configuration.load(path).settings
    assert (settings.streams["trades"].data, settings.warehouse.catalog) == ("s3://b/of", "sqlite:////x: y # z")
    assert (settings.limits.max_matches, settings.spark.properties) == (2, {"a": "x 1 y"})
    monkeypatch.setenv("MOST", "many")
    with pytest.raises(InputError, match=r"pipeline\.yaml:9: limits\.max_matches: .*'many'"):
        Configuration.load(path)
    path.write_text(text.replace(":-raw", ""))
    monkeypatch.delenv("RAW")
    with pytest.raises(InputError, match=r"pipeline\.yaml:4: the environment variable RAW is not set; .*RAW:-VALUE"):
        Configuration.load(path)


def test_a_schema_of_another_name_and_a_missing_folder_are_told_with_their_lines(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE + "  others: {schema: trades.yaml, data: nowhere}\n")
    configuration = Configuration.load(path)
    with pytest.raises(InputError, match=r"pipeline\.yaml:7: streams\.others: .*is named 'trades', not 'others'"):
        configuration.stream("others")
    assert str(configuration.missing_data("others")).startswith(f"{path}:7: streams.others.data: there is no folder")
    (folder / "nowhere").mkdir()
    assert configuration.missing_data("others") is None


def test_missing_files_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: no such pipeline configuration"):
        Configuration.load(folder / "nowhere.yaml")
    (folder / "market.sase").unlink()
    with pytest.raises(InputError, match=r"pipeline\.yaml:6: .*file: .*market\.sase: no such pattern file"):
        Configuration.load(folder / "pipeline.yaml").stream("trades")
    (folder / "trades.yaml").unlink()
    with pytest.raises(InputError, match=r"pipeline\.yaml:3: .*schema: .*trades\.yaml: no such stream schema"):
        Configuration.load(folder / "pipeline.yaml").stream("trades")


def test_an_empty_pattern_file_and_an_unknown_stream_are_refused(folder: Path) -> None:
    configuration = Configuration.load(folder / "pipeline.yaml")
    with pytest.raises(InputError, match="no stream 'tades'; configured are trades"):
        configuration.stream("tades")
    (folder / "market.sase").write_text("-- nothing\n")
    with pytest.raises(InputError, match="no pattern in it"):
        configuration.stream("trades")


@pytest.mark.parametrize(("setting", "words"), [("planner: best", "planner 'best'"), ("cost: money", "'money'")])
def test_an_unknown_way_of_planning_is_refused_with_the_configuration(folder: Path, setting: str, words: str) -> None:
    (folder / "pipeline.yaml").write_text(f"{PIPELINE}planning: {{{setting}}}\n")
    with pytest.raises(InputError, match=rf"pipeline\.yaml:\d+: .*{words}.*there are:"):
        Configuration.load(folder / "pipeline.yaml").stream("trades")


def test_a_pattern_set_names_its_mechanism(folder: Path) -> None:
    named = PIPELINE.replace("file: market.sase", "file: market.sase, mechanism: evaluation_tree")
    assert named != PIPELINE
    (folder / "pipeline.yaml").write_text(named)
    assert Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_sets[0].mechanism == "evaluation_tree"
    (folder / "pipeline.yaml").write_text(named.replace("evaluation_tree", "magic"))
    with pytest.raises(
        InputError, match=r"pipeline\.yaml:6: .*market\.mechanism: .*mechanism 'magic'; there are: fused"
    ):
        Configuration.load(folder / "pipeline.yaml").stream("trades")


def test_a_stream_may_have_statistics_of_its_own(folder: Path) -> None:
    text = PIPELINE.replace("    data: raw\n", "    data: raw\n    statistics: {window: 5 minutes}\n")
    (folder / "pipeline.yaml").write_text(f"{text}statistics: {{window: 20 minutes, epsilon: 0.1}}\n")
    statistics = Configuration.load(folder / "pipeline.yaml").stream("trades").statistics
    assert (statistics.length, statistics.epsilon) == (Window(time_us=300_000_000), 0.1)
    (folder / "pipeline.yaml").write_text(f"{PIPELINE}statistics: {{window: 20 minutes}}\n")
    statistics = Configuration.load(folder / "pipeline.yaml").stream("trades").statistics
    assert statistics.length == Window(time_us=1_200_000_000)


def test_a_faulty_pattern_names_its_file_and_line(folder: Path) -> None:
    (folder / "market.sase").write_text(PATTERNS.replace("price", "prise"))
    with pytest.raises(PatternError) as caught:
        Configuration.load(folder / "pipeline.yaml").stream("trades")
    assert caught.value.source == str(folder / "market.sase")
    assert "did you mean 'price'" in str(caught.value)


def test_the_schema_must_bear_the_name_of_its_stream(folder: Path) -> None:
    (folder / "trades.yaml").write_text(SCHEMA.replace("name: trades", "name: other"))
    with pytest.raises(InputError, match="or `name: trades` in the schema"):
        Configuration.load(folder / "pipeline.yaml").stream("trades")


def test_parameters_from_text_and_file(tmp_path: Path) -> None:
    (tmp_path / "values.txt").write_text("SPY\n\n'12'\n12\n1.5\ntrue\nNAN\n")
    assert read_parameter("@values.txt", tmp_path) == ("SPY", "12", 12, 1.5, True, "NAN")
    assert read_parameter("a, b", tmp_path) == ("a", "b")
    with pytest.raises(InputError, match=r"missing\.txt"):
        read_parameter("@missing.txt", tmp_path)


def test_a_parameter_outside_in_is_one_value(folder: Path) -> None:
    (folder / "market.sase").write_text(PATTERNS.replace("b.price > a.price", "b.price > a.price + $step"))
    for values in ("1.5", "'1.5'", "[1.5]"):
        (folder / "pipeline.yaml").write_text(PIPELINE.replace("{tech:", f"{{step: {values}, tech:"))
        [pattern] = Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_set("market").patterns
        assert dict(pattern.parameters)["step"] == 1.5
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("{tech:", "{step: '1, 2.5', tech:"))
    with pytest.raises(ValueError, match="must be bound to one number, string or bool here, not to a set"):
        Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_set("market")


def test_statements_of_plans_keep_parameters_of_one_value(folder: Path) -> None:
    (folder / "market.sase").write_text(
        "NAME late PATTERN Trade a WHERE a.symbol IN $tech AND a.price > $least "
        "AND time_of_day(a.timestamp) > TIME '16:00' WITHIN 1 second"
    )
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("{tech:", "{least: 3, tech:"))
    (folder / "trades.yaml").write_text(SCHEMA.replace("timezone: UTC", "timezone: America/New_York"))
    [pattern] = Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_set("market").patterns
    recorded = json.loads(json.dumps(statements_of([pattern])))
    assert recorded["late"]["parameters"] == {"tech": ["AAPL", "MSFT"], "least": 3}
    told = pattern_of(statement_of(pattern))
    assert (told, told.timezone) == (pattern, "America/New_York")


def test_adaptation_is_set_for_all_pattern_sets_and_for_one(folder: Path) -> None:
    of_set = PIPELINE.replace('MSFT"}', 'MSFT"}, adaptation: {k: all}')
    of_all = "adaptation: {decision: invariant, distance: 0.2, k: 3, minimum_gain: 0}\n"
    (folder / "pipeline.yaml").write_text(of_set + of_all)
    (market,) = Configuration.load(folder / "pipeline.yaml").stream("trades").pattern_sets
    settings = market.adaptation
    assert (settings.decision, settings.distance, settings.k, settings.minimum_gain) == ("invariant", 0.2, "all", 0)
    assert settings.function() == InvariantBased(k=None, distance=Fixed(0.2), threshold=0.5)
    assert settings.decisive() == {"distance": 0.2, "k": "all", "threshold": 0.5}


def test_a_decision_function_is_made_with_the_settings_that_it_has() -> None:
    assert AdaptationSettings(decision="static", k=7).function() == Static()
    by_threshold = AdaptationSettings(decision="constant_threshold", threshold=0.25)
    assert by_threshold.function() == ConstantThreshold(0.25)
    assert by_threshold.decisive() == {"threshold": 0.25}


def test_a_parameter_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a number of 5,000 digits"):
        read_parameter("9" * 5000, tmp_path)
    assert read_parameter(f"'{'9' * 5000}'", tmp_path) == ("9" * 5000,)
    with pytest.raises(InputError, match="no such parameter file"):
        read_parameter("@none.txt", tmp_path)
