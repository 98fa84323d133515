"""No stage waits for what another makes only after it."""

from __future__ import annotations

import apache_beam as beam
import pytest
import samples
from apache_beam import pvalue


def crossed(p: beam.Pipeline) -> None:
    """Two PCollections, each the side input of the other."""
    left = p | "left" >> beam.Create([1])
    right = p | "right" >> beam.Create([2])
    left | "of right" >> beam.Map(lambda x, y: y, pvalue.AsList(right)) | "left on" >> beam.Map(str)
    right | "of left" >> beam.Map(lambda x, y: y, pvalue.AsList(left)) | "right on" >> beam.Map(str)


def in_a_ring(p: beam.Pipeline) -> None:
    """Three, each the side input of the next one."""
    numbers = [p | f"source {n}" >> beam.Create([n]) for n in range(3)]
    for n, number in enumerate(numbers):
        side = pvalue.AsIter(numbers[(n + 1) % 3])
        number | f"use {n}" >> beam.Map(lambda x, y: y, side) | f"on {n}" >> beam.Map(str)


@pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
@pytest.mark.parametrize("build", [crossed, in_a_ring])
def test_each_stage_comes_after_those_it_reads(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    done: set[str] = set()
    for stage in plan.stages.values():
        read = [use.buffer_id for use in stage.side_inputs]
        if stage.input_buffer is not None:
            read.append(stage.input_buffer)
        assert {writer.stage_id for b in read for writer in plan.writers(b)} <= done
        done.add(stage.stage_id)


def test_the_rest_is_fused_as_ever() -> None:
    ends = [stage.spec.name for stage in samples.plan_of(crossed).stages.values()]
    assert any("of right" in name and "left on" in name for name in ends)
