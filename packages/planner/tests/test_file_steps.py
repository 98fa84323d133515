from __future__ import annotations

import apache_beam as beam
import pytest
import samples
from apache_beam.io import ReadAllFromText, ReadFromText, WriteToText, fileio

from beam_runner_planner import _protos
from beam_runner_planner.file_steps import find_file_steps


def everything(p: beam.Pipeline) -> None:
    _ = p | "source" >> ReadFromText("in.txt", validate=False) | "sink" >> WriteToText("out")
    _ = p | "match" >> fileio.MatchFiles("*.csv")
    _ = p | beam.Create(["a*"]) | "all" >> ReadAllFromText()


@pytest.mark.parametrize(
    ("flags", "elsewhere"), [(samples.EMBEDDED, False), (samples.EXTERNAL, True)]
)
def test_file_steps_of_pipeline_are_its_file_reads_matches_and_writes(
    flags: tuple[str, ...], elsewhere: bool
) -> None:
    found = {step.name: step for step in find_file_steps(_serialized(flags))}

    assert {name: (step.pattern, step.is_write) for name, step in found.items()} == {
        "source/Read": ("./in.txt", False),
        "match/MatchAll/ParDo(_MatchAllFn)": ("", False),
        "all/ReadAllFiles/ExpandIntoRanges": ("", False),
        "sink/Write": ("out-*-of-*", True),
    }
    assert {step.elsewhere for step in found.values()} == {elsewhere}
    assert all(step.inputs and step.outputs for step in found.values())


@pytest.mark.parametrize(
    ("pattern", "relative"), [("in/*", True), ("/in/*", False), ("s3://bucket/in", False)]
)
def test_file_pattern_without_root_or_scheme_is_relative(pattern: str, relative: bool) -> None:
    reads = find_file_steps(_serialized(samples.EMBEDDED, "./in.txt", pattern))

    assert [read.is_relative for read in reads if read.pattern and not read.is_write] == [relative]


def test_file_steps_are_sorted_by_name() -> None:
    def matches(p: beam.Pipeline) -> None:
        for number in range(20):
            _ = p | f"match {number:02}" >> fileio.MatchFiles("*.csv")

    names = [read.name for read in find_file_steps(samples.built(matches).SerializeToString())]

    assert len(names) == 20
    assert names == sorted(names)


def test_file_step_with_damaged_display_data_is_ignored() -> None:
    pipeline = samples.built(everything)
    for node in pipeline.components.transforms.values():
        for item in node.display_data:
            item.payload = b"\xff"

    assert find_file_steps(pipeline.SerializeToString()) == ()


def _serialized(flags: tuple[str, ...], old: str = "", new: str = "") -> bytes:
    """Returns the pipeline with replaced text in its display data."""
    pipeline = samples.built(everything, *flags)
    for node in pipeline.components.transforms.values():
        for item in node.display_data:
            shown = _protos.LabelledPayload.FromString(item.payload)
            if old and shown.string_value == old:
                shown.string_value = new
                item.payload = shown.SerializeToString()
    return bytes(pipeline.SerializeToString())
