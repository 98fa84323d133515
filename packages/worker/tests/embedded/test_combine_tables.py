"""What a lifted combine keeps before the shuffle is limited in bytes, not only in keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam import combiners
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from mini_runner import Logs, MiniRunner, NoArtifacts, job

from beam_runner_worker.embedded import EmbeddedHarness
from beam_runner_worker.embedded.combine_tables import TABLE_BYTES, _give_back

MEGABYTE = 1 << 20
VALUES = 96
KEYS = 3


def megabytes(number: int) -> Iterator[tuple[str, bytes]]:
    """Values of several keys, each a megabyte that is no other's."""
    for place in range(VALUES):
        yield f"key {place % KEYS}", bytes([number, place]) * (MEGABYTE // 2)


def accumulators(windowing: beam.PTransform, table_bytes: int) -> int:
    """How many accumulators a combine to lists puts out before the shuffle."""
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([1]) | windowing | beam.FlatMap(megabytes)
    lists = pairs | beam.CombinePerKey(combiners.ToListCombineFn())
    sizes = lists | beam.MapTuple(lambda key, values: (key, len(values), len(set(values))))
    assert_that(
        sizes, equal_to([(f"key {n}", VALUES // KEYS, VALUES // KEYS) for n in range(KEYS)])
    )
    runner = MiniRunner(pipeline)
    runner.harness.close()
    runner.harness = EmbeddedHarness(job(), NoArtifacts(), Logs(), table_bytes)
    # What tests before this one have freed could be used again, and the process would not grow.
    gc.collect()
    _give_back()
    runner.run()
    for planned, result in runner.results:
        if b"precombine" in planned.spec.descriptor:
            (buffer,) = planned.output_buffers.values()
            assert result is not None
            return sum(len(chunk.key_ends) for chunk in runner.buffers[buffer])
    raise AssertionError("the combine is not lifted")


@pytest.mark.parametrize(
    "windowing",
    [beam.WindowInto(window.GlobalWindows()), beam.WindowInto(window.FixedWindows(60))],
    ids=["one window", "windows"],
)
def test_a_table_that_is_too_large_is_put_out(windowing: beam.PTransform) -> None:
    many = accumulators(windowing, 8 * MEGABYTE)
    assert KEYS < many <= VALUES
    assert accumulators(windowing, TABLE_BYTES) == KEYS
