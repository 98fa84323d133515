"""Tests that Beam's DataFrames and Beam's interactive runner work with the installed version of pandas."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.dataframe.convert import to_dataframe, to_pcollection
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.testing.util import assert_that, equal_to


def test_beam_dataframe_sums_a_column_by_key() -> None:
    with beam.Pipeline("DirectRunner") as pipeline:
        rows = pipeline | beam.Create([beam.Row(key="a", n=1), beam.Row(key="a", n=2)])
        sums = to_dataframe(rows).groupby("key").sum()
        found = to_pcollection(sums) | beam.Map(lambda row: row.n)
        assert_that(found, equal_to([3]))


def test_beam_interactive_runner_can_be_imported() -> None:
    assert issubclass(InteractiveRunner, PipelineRunner)
