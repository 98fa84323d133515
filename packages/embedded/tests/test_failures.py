"""Tests of the texts of user errors, with the name of the failing transform."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import pytest
from beam_runner_worker.errors import BundleError
from mini_runner import MiniRunner

from beam_runner_embedded.failures import convert_build_error, describe_exception


class WithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_user_exception_without_text_is_reported() -> None:
    assert describe_exception(WithoutText()).endswith(
        "WithoutText: (str() of the exception failed: ValueError)"
    )


def test_missing_module_error_has_advice_on_first_line() -> None:
    failed = convert_build_error(ModuleNotFoundError("No module named 'mine.parts'"), "stage")
    assert "'mine.parts' isn't installed" in str(failed).splitlines()[0]


def test_import_error_of_stage_names_its_phase() -> None:
    failed = convert_build_error(ImportError("cannot import name 'x'"), "stage")
    assert isinstance(failed, BundleError)
    assert failed.summary == "ImportError: cannot import name 'x' (while loading its functions)"


class BadCombine(beam.CombineFn):
    def __init__(self, where: str) -> None:
        self.where = where

    def _maybe(self, where: str) -> None:
        if where == self.where:
            raise ValueError("boom")

    def create_accumulator(self) -> int:
        self._maybe("create")
        return 0

    def add_input(self, accumulator: int, value: int) -> int:
        self._maybe("add")
        return accumulator + value

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self._maybe("merge")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self._maybe("extract")
        return accumulator


@pytest.mark.parametrize(
    ("where", "transform"),
    [
        ("create", "Bad/Precombine"),
        ("add", "Bad/Precombine"),
        ("merge", "Bad/Merge"),
        ("extract", "Bad/ExtractOutputs"),
    ],
)
def test_combine_fn_error_names_combine(where: str, transform: str) -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("a", 1)]) | beam.Map(lambda pair: pair)
    pairs | "Good" >> beam.CombinePerKey(sum)
    pairs | "Bad" >> beam.CombinePerKey(BadCombine(where))
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert failed.value.transform == transform
    assert failed.value.summary == "ValueError: boom"


@pytest.mark.parametrize("where", ["create", "add"])
def test_combine_fn_error_names_correct_combine_of_two(where: str) -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("a", 1)]) | beam.Map(lambda pair: pair)
    pairs | "Good" >> beam.CombinePerKey(BadCombine("nowhere"))
    pairs | "Bad" >> beam.CombinePerKey(BadCombine(where))
    pairs | "Fine" >> beam.CombinePerKey(BadCombine("nowhere"))
    with pytest.raises(BundleError) as failed:
        MiniRunner(pipeline).run()
    assert "Bad" in failed.value.transform
