"""Tests of GroupByKey, CoGroupByKey and combiners, also in long chains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from jobs import Pipelines


def test_keys_with_equal_encodings_are_grouped_together(pipelines: Pipelines) -> None:
    """In Python, 1 == 1.0 == True; Beam's model compares encoded keys."""
    with pipelines.new() as p:
        counts = (
            p
            | beam.Create([(1, "int"), (True, "bool"), (1.0, "float"), (1, "int")])
            | beam.Map(lambda pair: pair).with_output_types(tuple[Any, str])
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (repr(key), sorted(values)))
        )
        assert_that(
            counts, equal_to([("1", ["int", "int"]), ("True", ["bool"]), ("1.0", ["float"])])
        )


@pytest.mark.parametrize("value_type", [Iterable[int], Iterable[Any], list[int]], ids=str)
def test_iterables_of_every_type_are_grouped(pipelines: Pipelines, value_type: Any) -> None:
    with pipelines.new() as p:
        lists = (
            p
            | beam.Create([("k", [1, 2]), ("k", []), ("k", [3])])
            | beam.Map(lambda pair: pair).with_output_types(tuple[str, value_type])
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (key, sorted(map(list, values))))
        )
        assert_that(lists, equal_to([("k", [[], [1, 2], [3]])]))


class Mean(beam.CombineFn):
    """Mean with an accumulator of another type than input and output."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], element: int) -> tuple[int, int]:
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        totals, counts = zip(*accumulators, strict=True)
        return sum(totals), sum(counts)

    def extract_output(self, accumulator: tuple[int, int]) -> str:
        total, count = accumulator
        return f"{total}/{count}"


def combine(p: beam.Pipeline) -> None:
    numbers = p | beam.Create(range(10)) | beam.Reshuffle()
    assert_that(numbers | beam.CombineGlobally(Mean()), equal_to(["45/10"]), label="globally")
    assert_that(
        numbers
        | beam.Map(lambda n: (n % 3, n))
        | beam.CombinePerKey(Mean())
        | beam.MapTuple(lambda key, mean: f"{key}: {mean}"),
        equal_to(["0: 18/4", "1: 12/3", "2: 15/3"]),
        label="per key",
    )
    grouped = numbers | "pair" >> beam.Map(lambda n: ("k", n)) | beam.GroupByKey()
    assert_that(grouped | beam.CombineValues(Mean()), equal_to([("k", "45/10")]), label="values")


def test_combine_lifted_by_the_client_gives_exact_results(embedded: Pipelines) -> None:
    """A client that optimizes pipelines sends precombine, merge and extract as transforms."""
    pipeline = embedded.new()
    combine(pipeline)
    proto = pipeline.to_runner_api(default_environment=get_environment(embedded))
    lifted = translations.optimize_pipeline(
        proto,
        phases=[translations.lift_combiners],
        known_runner_urns=frozenset(
            {
                "beam:transform:reshuffle:v1",
                "beam:transform:group_by_key:v1",
                "beam:transform:flatten:v1",
                "beam:transform:impulse:v1",
            }
        ),
        partial=True,
    )
    urns = {t.spec.urn for t in lifted.components.transforms.values()}
    assert "beam:transform:combine_per_key_precombine:v1" in urns
    assert "beam:transform:combine_per_key_extract_outputs:v1" in urns
    with JobClient(embedded.address) as client:
        job_id = client.submit_job(
            lifted.SerializeToString(), {"beam:option:job_name:v1": "lifted"}
        )
        messages = [getattr(m, "text", "") for m in client.follow_messages(job_id, 60)]
        assert client.get_state(job_id).state is JobState.DONE, messages


def get_environment(pipelines: Pipelines) -> Any:
    from apache_beam.runners.portability.portable_runner import PortableRunner

    return PortableRunner._create_environment(pipelines.new().options)


def test_consecutive_groupings_lose_no_value(embedded: Pipelines) -> None:
    """The values exceed the size of a report, on machines without a shared data location."""
    value = "x" * 1000
    with embedded.new() as p:
        pairs = p | beam.Create(range(20)) | beam.FlatMap(lambda n: [(k, value) for k in range(97)])
        for link in range(12):
            groups = pairs | f"group {link}" >> beam.GroupByKey()
            pairs = groups | f"deal {link}" >> beam.FlatMapTuple(
                lambda key, values, by=link + 2: [
                    ((key * by + place) % 97, value) for place, value in enumerate(values)
                ]
            )
        assert_that(pairs | beam.combiners.Count.Globally(), equal_to([20 * 97]))
