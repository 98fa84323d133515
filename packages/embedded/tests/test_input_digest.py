"""Tests of the digest of the input of a step in a shadow run."""

from __future__ import annotations

import itertools

import apache_beam as beam
from apache_beam.metrics import MetricsFilter
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from beam_runner_model.shadows import SHADOW_NAMESPACE, find_time_slot

from beam_runner_embedded.input_digest import DigestInput, hash_value

VALUES = (1, 1.0, True, "1", b"1", None, (1,), [1], ((1,),), ("1", 1), (1, "1"), [1, 1], 2)


def test_hash_differs_for_different_values() -> None:
    for one, other in itertools.combinations(VALUES, 2):
        assert hash_value(one) != hash_value(other), (one, other)


def test_hash_of_a_group_does_not_depend_on_the_order() -> None:
    assert hash_value(("key", [1, 2, 3])) == hash_value(("key", (one for one in (3, 1, 2))))
    assert hash_value((1, 2)) != hash_value((2, 1))


def test_digest_counts_elements_by_time_and_emits_nothing() -> None:
    start = 100_000

    def run(values: list[int]) -> dict[str, int]:
        pipeline = beam.Pipeline()
        emitted = (
            pipeline
            | beam.Create(values)
            | beam.Map(lambda n: TimestampedValue(n, n))
            | beam.WindowInto(FixedWindows(10))
            | beam.ParDo(DigestInput(start))
        )
        _ = emitted | beam.combiners.Count.Globally().without_defaults() | beam.Map(_fail)
        result = pipeline.run()
        result.wait_until_finish()
        found = result.metrics().query(MetricsFilter().with_namespace(SHADOW_NAMESPACE))
        return {one.key.metric.name: one.committed for one in found["counters"]}

    slots = [find_time_slot(n * 1000, start) for n in (100, 101)]
    names = [f"{slot.start}:{slot.end}" for slot in slots]
    found = run([100, 100, 101])
    assert [found[f"elements:{name}"] for name in names] == [2, 1]
    assert found == run([101, 100, 100])
    assert found != run([101, 101, 100])


def _fail(element: object) -> None:
    raise AssertionError(element)
