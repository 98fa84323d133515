"""Tests of parsing the error texts of SDKs in different languages."""

from __future__ import annotations

import time

import pytest
from beam_runner_model.chunks import StageTimer
from beam_runner_model.texts import MOST_CHARACTERS

from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.failures import (
    create_bundle_error,
    describe_possibly_failing_elements,
)

PYTHON = """Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1498, in process
  File "/main.py", line 7, in f
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/sdk_worker.py", line 311, in _execute
    response = task()
               ^^^^^^
  File "apache_beam/runners/common.py", line 1600, in _reraise_augmented
    raise new_exn
ZeroDivisionError: division by zero [while running 'Outer/Inner/Map(f)']
"""
UNREADABLE = """Traceback (most recent call last):
  File "/main.py", line 7, in __setstate__
    raise ValueError("cannot be read")
ValueError: cannot be read

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "apache_beam/runners/worker/bundle_processor.py", line 236, in process_encoded
    raise ValueError(
ValueError: Error decoding input stream with coder VarIntCoder in step stage1/read
"""
TWO_LINES = """Traceback (most recent call last):
  File "/main.py", line 7, in f
    raise ValueError("first\\nsecond")
mine.Problem: first
second [while running 'Map(f)']
"""
JAVA = """java.util.concurrent.ExecutionException: org.apache.beam.sdk.util.UserCodeException
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: org.apache.beam.sdk.util.UserCodeException: java.lang.IllegalStateException: no
\tat org.apache.beam.sdk.util.UserCodeException.wrap(UserCodeException.java:39)
Caused by: java.lang.IllegalStateException: no
\tat Main.process(Main.java:3)
\t... 3 more
"""
GO = """process bundle failed for instruction 1 using plan S1 : while executing Process for Plan[S1]:
1: DataSource[S[e1@127.0.0.1:1], i0] Out:2 Coder:W<bytes>!GWC
2: ParDo[main.sum] Out:[] Sig: func(context.Context, string) error
\tcaused by:
source failed processing data
\tcaused by:
DoFn[UID:2, PID:e5, Name: main.sum] failed:
go failed on purpose"""
GO_PANIC = """process bundle failed for instruction 1 using plan S1 : panic: three
Full error:
while executing Process for Plan[S1]:
2: ParDo[main.sum] Out:[] Sig: func(int) int
\tcaused by:
panic: three goroutine 45 [running]:
runtime/debug.Stack()
\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
created by harness.Main in goroutine 1
\t/beam/core/runtime/harness/harness.go:226 +0x1025"""
SENTENCE = "something went wrong"


@pytest.mark.parametrize(
    ("text", "transform", "summary"),
    [
        (PYTHON, "Outer/Inner/Map(f)", "ZeroDivisionError: division by zero"),
        (TWO_LINES, "Map(f)", "mine.Problem: first"),
        (JAVA, "the stage", "java.lang.IllegalStateException: no"),
        (GO, "Outer/main.sum", "go failed on purpose"),
        (GO_PANIC, "the stage", "panic: three"),
        (SENTENCE, "the stage", SENTENCE),
        ("", "the stage", "the SDK reported an error without a message"),
    ],
)
def test_sdk_error_texts_are_parsed(text: str, transform: str, summary: str):
    error = create_bundle_error(text, "the stage", {"e5": "Outer/main.sum"})
    assert error.transform == transform
    assert error.summary == summary
    assert error.trace == text


def test_sdk_error_names_innermost_transform():
    text = "boom [while running 'Inner'] [while running 'Outer']"
    error = create_bundle_error(text, "the stage", {"e5": "Outer/main.sum"})
    assert error.transform == "Inner"
    assert error.summary == "boom"


def test_long_sdk_error_text_is_shortened():
    assert len(create_bundle_error("x" * 10_000, "the stage", {}).summary) < 600


def test_sdk_coder_error_text_starts_with_the_innermost_error() -> None:
    assert create_bundle_error(UNREADABLE, "the stage", {}).summary == (
        "ValueError: cannot be read"
        " (ValueError: Error decoding input stream with coder VarIntCoder in step stage1/read)"
    )


def given(elements: int = 0, data: bytes = b"abc", done: float = 0.0, timers: int = 0) -> SdkBundle:
    bundle = SdkBundle("b", None)  # type: ignore[arg-type]  # it asks for no state
    bundle.record_queued_message(elements)
    bundle.first_data, bundle.processed = data, done
    timer = StageTimer("T", "ts-clock", "", b"\x01k", (b"",), 5, 5, b"\x0f")
    bundle.record_timers([timer] * timers)
    return bundle


@pytest.mark.parametrize(
    ("bundle", "element"),
    [
        (given(), ""),
        (given(9), "one of the elements 1 to 9 of the bundle's input"),
        (given(9, done=4.7), "one of the elements 5 to 9 of the bundle's input"),
        (given(9, done=8.0), "the element 9 of the bundle's input"),
        (given(9, done=9.0), "the element 9 of the bundle's input"),
        (given(1), "616263 (encoded, with its timestamp, windows and pane)"),
        (given(1, bytes(101)), f"{'00' * 100}... (encoded, with its timestamp, windows and pane)"),
        (given(timers=1), "the timer 'clock' of the key 016b (encoded)"),
        (given(timers=2), "one of the 2 timers that fired in the bundle"),
        (
            given(9, timers=2),
            "one of the elements 1 to 9 of the bundle's input, or one of the 2 timers that fired in the bundle",
        ),
    ],
)
def test_sdk_error_names_known_parts_of_failing_element(bundle: SdkBundle, element: str) -> None:
    assert describe_possibly_failing_elements(TWO_LINES, bundle) == element


@pytest.mark.parametrize("method", ["_invoke_bundle_method", "_invoke_lifecycle_method"])
def test_sdk_error_without_element_names_no_element(method: str) -> None:
    assert (
        describe_possibly_failing_elements(
            PYTHON.replace("in process", f"in {method}"), given(9, timers=1)
        )
        == ""
    )


def test_sdk_error_in_timer_names_only_the_timer() -> None:
    text = PYTHON.replace("in process", "in process_user_timer")
    assert (
        describe_possibly_failing_elements(text, given(9, timers=1))
        == "the timer 'clock' of the key 016b (encoded)"
    )


@pytest.mark.parametrize(
    "piece", [" [while running '", '  File "', "goroutine 1 [running]:\n", "panic: "]
)
def test_sdk_error_parsing_takes_linear_time(piece: str) -> None:
    began = time.thread_time()
    failed = create_bundle_error(piece * (10_000_000 // len(piece)), "stage", {})
    assert time.thread_time() - began < 5
    assert len(failed.trace) <= MOST_CHARACTERS
