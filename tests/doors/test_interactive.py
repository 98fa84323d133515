"""Tests of Beam's interactive runner: Spark computes bounded PCollections, and streams are recorded and replayed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)
pytest.importorskip("IPython", reason="wants the group notebook")

SCRIPT = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.interactive import interactive_beam as ib
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from beam_spark_executor import BeamSparkRunner

FLAGS = ["--spark_master_url=local[1]"]
runner = InteractiveRunner(underlying_runner=BeamSparkRunner())

bounded = beam.Pipeline(runner, PipelineOptions(FLAGS))
counts = bounded | beam.Create(["a", "b", "a"]) | beam.combiners.Count.PerElement()
ib.watch(locals())
print("counts", sorted(ib.collect(counts).values.tolist()))
ib.show(counts)
print("texts", sorted(ib.collect(counts | beam.MapTuple(lambda word, n: word * n))[0]))

ib.options.recordable_sources.add(TestStream)
ib.options.recording_duration = "20s"
stream = beam.Pipeline(runner, PipelineOptions([*FLAGS, "--streaming"]))
script = TestStream().advance_watermark_to(0)
script.add_elements([TimestampedValue(n, n) for n in range(20)]).advance_watermark_to_infinity()
sums = (stream | script | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda n: ("sum", n))
    | beam.CombinePerKey(sum))
ib.watch(locals())
print("sums", sorted(ib.collect(sums).values.tolist()))
print("again", sorted(ib.collect(sums | beam.Values() | "Half" >> beam.Map(lambda n: n // 5))[0]))
"""


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_interactive_runner_shows_and_collects_pcollections(program: Any) -> None:
    program.write("main.py", SCRIPT)
    code, told = program.run("main.py")
    assert code == 0, told
    lines = told.splitlines()
    assert "counts [['a', 2], ['b', 1]]" in lines, told
    assert "texts ['aa', 'b']" in lines, told
    assert "sums [['sum', 45], ['sum', 145]]" in lines, told
    assert "again [9, 29]" in lines, told
