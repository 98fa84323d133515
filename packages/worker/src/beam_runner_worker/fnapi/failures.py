"""Parser of the error texts of SDKs, which finds the exception and the failed transform.

SDKs report an error as one text. Python's is a traceback whose exception names the running
transform, Java's is a stack trace with its causes, and Go's is a list of causes that names the
transform.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from beam_runner_model.texts import format_bytes, format_timer, sanitize_text

from beam_runner_worker.advice import add_error_advice
from beam_runner_worker.errors import BundleError
from beam_runner_worker.fnapi.bundle import SdkBundle

# Limit the length of names, so that the search takes linear time.
_RUNNING = re.compile(r" \[while running '(?P<transform>.{,5000}?)'\]", re.DOTALL)
_PYTHON_FRAME = re.compile(r'^  File ".*", line \d+')
_JAVA_FRAME = re.compile(r"^\s+at \S+\(.*\)", re.MULTILINE)
_JAVA_CAUSE = "Caused by: "
_GO_RUNNING = re.compile(r"^DoFn\[UID:\d+, PID:(?P<id>.*), Name: .*\] failed:$", re.MULTILINE)
_GO_CAUSE = "\tcaused by:"
_GO_PANIC = re.compile(r"^(?P<panic>panic: .*) goroutine \d+ \[running\]:$", re.MULTILINE)
_DECODING = "Error decoding input stream with coder "
_CAUSES = "The above exception was the direct cause of the following exception:"
"""Texts in Python tracebacks that follow the original error of a coder."""
_SUMMARY_CHARACTERS = 500
_AT_NO_ELEMENT = ("_invoke_bundle_method", "_invoke_lifecycle_method")
_AT_A_TIMER = "process_user_timer"
"""Functions of the Python SDK whose names appear in its tracebacks."""


def create_bundle_error(
    text: str,
    stage_name: str,
    transform_names: Mapping[str, str],
    element: str = "",
    *,
    in_a_pool: bool = False,
) -> BundleError:
    """Converts the error text of an SDK to the error of a bundle.

    Args:
        text: the error text of the SDK.
        stage_name: the name that replaces an unknown transform.
        transform_names: the full names of the stage's transforms, by their ids.
        element: description of the element that was being processed; may be empty.
        in_a_pool: whether the SDK is a worker of a pool.
    """
    text = sanitize_text(text)
    running = _RUNNING.search(text)
    if running:
        transform = running["transform"]
    else:
        in_go = _GO_RUNNING.search(text)
        transform = transform_names.get(in_go["id"], stage_name) if in_go else stage_name
    summary = add_error_advice(_summarize_error(text), text, in_a_pool=in_a_pool)
    return BundleError(transform, summary, text, element)


def _summarize_error(text: str) -> str:
    lines = text.strip().splitlines() or ["the SDK reported an error without a message"]
    line = lines[0]
    if any(_PYTHON_FRAME.match(each) for each in lines):
        line = _find_python_exception(lines)
        if _DECODING in line and _CAUSES in lines:
            line = f"{_find_python_exception(lines[: lines.index(_CAUSES)])} ({line})"
    elif _JAVA_FRAME.search(text):
        causes = [each for each in lines if each.startswith(_JAVA_CAUSE)]
        line = causes[-1].removeprefix(_JAVA_CAUSE) if causes else lines[0]
    elif panic := _GO_PANIC.search(text):
        line = panic["panic"]
    elif _GO_CAUSE in lines:
        line = next((each for each in reversed(lines) if each != _GO_CAUSE), line)
    summary = _RUNNING.sub("", line).strip()
    return summary if len(summary) <= _SUMMARY_CHARACTERS else summary[:_SUMMARY_CHARACTERS] + "..."


def _find_python_exception(lines: list[str]) -> str:
    """Returns the type and message of the exception in a Python traceback: the first unindented line
    after the last frame.
    """
    last_frame = max(i for i, line in enumerate(lines) if _PYTHON_FRAME.match(line))
    for line in lines[last_frame + 1 :]:
        if line and not line.startswith(" "):
            return line
    return lines[-1]


def describe_possibly_failing_elements(text: str, bundle: SdkBundle) -> str:
    """Returns a description of the elements and timers at which an SDK may have failed. SDKs don't
    report the failed element.

    Args:
        text: the error text of the SDK.
        bundle: the failed bundle, with the data that was sent to it.
    """
    if any(each in text for each in _AT_NO_ELEMENT):
        return ""
    if _AT_A_TIMER in text:
        return _describe_timers(bundle)
    parts = [_describe_elements(bundle), _describe_timers(bundle)]
    return ", or ".join(part for part in parts if part)


def _describe_elements(bundle: SdkBundle) -> str:
    given, data = bundle.elements, bundle.first_data
    if given == 0:
        return ""
    first = min(int(bundle.processed) + 1, given)
    if given > 1:
        return (
            f"one of the elements {first} to {given} of the bundle's input"
            if first < given
            else (f"the element {given} of the bundle's input")
        )
    return f"{format_bytes(data)} (encoded, with its timestamp, windows and pane)"


def _describe_timers(bundle: SdkBundle) -> str:
    timer = bundle.first_timer
    if timer is None:
        return ""
    if bundle.timers > 1:
        return f"one of the {bundle.timers} timers that fired in the bundle"
    name = format_timer(timer.family, timer.tag)
    return f"{name} of the key {format_bytes(timer.key)} (encoded)"
