"""The examples of the page about Spark print what the page says."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_the_examples_print_what_the_page_says(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    shown = 0
    for example, said in pairwise(blocks("spark.md")):
        if example.language == "python":
            capsys.readouterr()
            exec(compile(example.text, "spark.md", "exec"), names)
            assert capsys.readouterr().out.strip() == said.text.strip()
            shown += 1
    assert shown == 2
    assert names["spark"] is spark
