"""Tests of Beam APIs that take a runner by name: YAML and TestPipeline."""

from __future__ import annotations

import sys
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

RUNNER = ("--runner=beam_spark_executor.BeamSparkRunner", "--spark_master_url=local[1]")
YAML = """
pipeline:
  type: chain
  transforms:
    - type: Create
      config:
        elements:
          - {name: one, number: 1}
          - {name: two, number: 2}
          - {name: one, number: 3}
    - type: MapToFields
      config:
        language: python
        fields:
          name: name
          number: "number * 10"
    - type: Combine
      config:
        language: python
        group_by: name
        combine:
          total:
            value: number
            fn: sum
    - type: MapToFields
      config:
        language: python
        fields:
          line: "name + ' ' + str(total)"
    - type: WriteToText
      config:
        path: out
"""
TESTS = """
import unittest

import apache_beam as beam
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to

class Longer(beam.DoFn):
    def process(self, number):
        yield number + 1

class Tests(unittest.TestCase):
    def test_that_passes(self):
        with TestPipeline() as pipeline:
            assert_that(pipeline | beam.Create([1, 2]) | beam.ParDo(Longer()), equal_to([2, 3]))

    def test_that_fails(self):
        with TestPipeline() as pipeline:
            assert_that(pipeline | beam.Create([1, 2]) | beam.ParDo(Longer()), equal_to([2, 4]))
"""


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_beam_yaml_finds_the_runner_by_name(program: Any) -> None:
    pytest.importorskip("docstring_parser", reason="wants apache-beam[yaml]")
    program.write("pipeline.yaml", YAML)
    yaml = ("-m", "apache_beam.yaml.main", "--yaml_pipeline_file=pipeline.yaml")
    code, told = program.run(*yaml, *RUNNER)
    assert code == 0, told
    written = [path.read_text() for path in program.folder.glob("out*")]
    assert sorted(line for text in written for line in text.splitlines()) == ["one 40", "two 20"]


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_beam_test_pipeline_finds_the_runner_by_name(program: Any) -> None:
    program.write("test_words.py", TESTS)
    options = f"--test-pipeline-options={' '.join(RUNNER)}"
    run = "import sys, unittest; sys.path.insert(0, ''); unittest.main('test_words', argv=['it', '-v'])"
    code, told = program.run("-c", run, options)
    assert code == 1, told
    assert "Ran 2 tests" in told and "FAILED (errors=1)" in told
    assert "test_that_passes (test_words.Tests.test_that_passes) ... ok" in told
    assert "Failed assert: [2, 4] == [2, 3]" in told
