"""Stages of bounded data run together as one Spark job, where a job asks for it."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from job_server import JobServerProcess
from jobs import Pipelines

ASKED = "--beam_spark_bulk=always"


def fail(group: tuple[int, Iterable[int]]) -> None:
    raise ValueError(f"no {group[0]}")


def test_a_tree_of_groupings_is_one_spark_job(
    embedded: Pipelines, server: JobServerProcess, placement: tuple[str, ...]
) -> None:
    with embedded.new(ASKED, "--job_name=tree") as p:
        squares = p | "numbers" >> beam.Create(range(100)) | beam.Map(lambda n: (n % 5, n * n))
        sums = squares | beam.CombinePerKey(sum)
        names = p | "names" >> beam.Create([(n, f"n{n}") for n in range(4)])
        joined = (
            (sums, names)
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda key, sides: (key, [list(side) for side in sides]))
        )
        expected = [
            (key, [[sum(n * n for n in range(key, 100, 5))], [f"n{key}"] if key < 4 else []])
            for key in range(5)
        ]
        assert_that(joined, equal_to(expected))
    told = [line for line in server.log if " job tree-" in line and "section" in line]
    assert any("section of " in line and "attempt 1" in line for line in told)
    refused = any("no section, but bundles" in line for line in told)
    assert refused is ("--without-spark" in placement)


def test_user_code_that_raises_in_one_is_told_by_its_name(embedded: Pipelines) -> None:
    with (
        pytest.raises(RuntimeError, match=r"ValueError: no 7 \[while running 'Raises'\]"),
        embedded.new(ASKED) as p,
    ):
        _ = p | beam.Create([(7, 1)]) | beam.GroupByKey() | "Raises" >> beam.Map(fail)
