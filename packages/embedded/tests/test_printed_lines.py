"""Lines that user code prints in bundles name the running transform."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import apache_beam as beam
from beam_runner_model.jobs import PRINT_PREFIX
from mini_runner import MiniRunner


def print_it(element: bytes) -> bytes:
    print("in process", element)
    return element


class PrintEverywhere(beam.DoFn):
    def setup(self) -> None:
        print("in setup")

    def process(self, element: bytes) -> Iterator[bytes]:
        yield element

    def finish_bundle(self) -> None:
        print("in finish", end="")


def test_prints_name_running_transform() -> None:
    before = sys.stdout
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | beam.Impulse()
        | "First" >> beam.Map(print_it)
        | "Second" >> beam.ParDo(PrintEverywhere())
    )
    runner = MiniRunner(pipeline).run()
    seen = {
        record.message.removeprefix(PRINT_PREFIX): record.transform_id
        for record in runner.logs.records
        if record.message.startswith(PRINT_PREFIX)
    }
    assert set(seen) == {"in process b''", "in setup", "in finish"}
    assert "First" in seen["in process b''"]
    assert "Second" in seen["in setup"]
    assert "Second" in seen["in finish"]
    assert sys.stdout is before
