from __future__ import annotations

import pytest
from beam_runner_model.failures import FailedBundle, FailureCause

from beam_runner_jobservices.failures import parse_error_message
from beam_runner_jobservices.step_names import StepNames

STEPS = {
    "root": "",
    "t0": "Read",
    "t2": "Read/Lines",
    "t3": "Count",
    "t4": "Write",
    "odd": "Map(<lambda at [x] y.py:1>)",
    "quoted": "Ev\"il' <img> 's",
}


@pytest.fixture
def names() -> StepNames:
    return StepNames(STEPS)


def trace(line: int, kind: str = "ValueError: no") -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode\n    raise\n'
        f'  File "/home/me/mine.py", line {line}, in parse\n    int(text)\n'
        '  File "/usr/lib/python3.11/json/decoder.py", line 9, in scan\n    raise no\n'
        f"{kind}"
    )


def test_parsed_failure_has_innermost_line_of_user_code(names: StepNames) -> None:
    failure = parse_error_message(f"ValueError: no [while running 'Count']\n{trace(4)}", names)
    assert (failure.type, failure.text, failure.step) == ("ValueError", "no", "t3")
    assert failure.innermost_user_frame is not None
    assert failure.innermost_user_frame.place == "mine.py:4 in parse"
    assert failure.innermost_user_frame.code == "int(text)"


def test_parsed_failure_has_element_step_and_cause_of_record(names: StepNames) -> None:
    text = f"ValueError: no [while running 'Read']\nThe element: ('a', <b>)\n{trace(4)}"
    record = FailedBundle("s", 1, kind="user_code", step="Count", element="('a', <b>)")
    failure = parse_error_message(text, names, record)
    assert (failure.element, failure.text, failure.step) == ("('a', <b>)", "no", "t3")
    assert failure.cause == FailureCause.USER_CODE
    assert parse_error_message(text, names).element == parse_error_message(text, names).cause == ""


def test_parsed_failure_without_traceback_has_text_of_record(names: StepNames) -> None:
    lost = FailedBundle("s", 1, kind=FailureCause.LOST_PROCESS, error="process 47 was lost")
    failure = parse_error_message("attempt 2 at a bundle failed: process 47 was lost", names, lost)
    assert (failure.type, failure.text, failure.step) == ("", "process 47 was lost", "")


def test_failure_text_of_fn_api_sdk_is_parsed(names: StepNames) -> None:
    text = "Error processing instruction 5. Original traceback is\n" + trace(
        4, "mine.Bad: a b [while running 'Read/Lines']"
    )
    failure = parse_error_message(text, names)
    assert (failure.type, failure.text, failure.step) == ("Bad", "a b", "t2")


def test_parsed_failure_with_chained_errors_has_last_error(names: StepNames) -> None:
    text = f"x\n{trace(1)}\n\nDuring handling of the above exception:\n\n{trace(2, 'KeyError: 7')}"
    failure = parse_error_message(text, names)
    assert (failure.type, failure.text) == ("KeyError", "7")
    assert failure.innermost_user_frame is not None and failure.innermost_user_frame.line == 2


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("Spark exited unexpectedly", "", "Spark exited unexpectedly"),
        ("ValueError: 5", "ValueError", "5"),
        ("'Write' was tried 4 times: lost", "", "'Write' was tried 4 times: lost"),
        ("", "", ""),
    ],
)
def test_parsed_failure_without_traceback_has_message_only(
    names: StepNames, text: str, kind: str, words: str
) -> None:
    failure = parse_error_message(text, names)
    assert (failure.type, failure.text, failure.frames) == (kind, words, ())


@pytest.mark.parametrize(
    ("text", "step", "rest"),
    [
        ("[Count] a line", "t3", "a line"),
        ("[Map(<lambda at [x] y.py:1>)] a line", "odd", "a line"),
        ("[Read/Lines/made by the runner] a line", "t2", "a line"),
        ("[INFO] a line", "", "[INFO] a line"),
        ("[] a line", "", "[] a line"),
        ("no brackets", "", "no brackets"),
    ],
)
def test_parsed_failure_message_names_step_in_brackets(
    names: StepNames, text: str, step: str, rest: str
) -> None:
    assert names.split_step_name(text) == (step, rest)


def test_parsed_failure_omits_frames_of_compiled_modules_of_beam(names: StepNames) -> None:
    text = trace(4).replace("/usr/lib/python3.11/json/decoder.py", "apache_beam/runners/common.py")
    failure = parse_error_message(f"ValueError: no [while running 'Count']\n{text}", names)
    assert [frame.function for frame in failure.frames if frame.users] == ["parse"]


def test_parsed_failure_has_step_with_quotes_in_its_name(names: StepNames) -> None:
    text = f"ValueError: no [while running 'Ev\"il' <img> 's']\n{trace(4)}"
    assert parse_error_message(text, names).step == "quoted"


def test_text_that_resembles_traceback_is_parsed_without_error(names: StepNames) -> None:
    text = (
        f'Traceback (most recent call last):\n  File "x", line {"9" * 5000}, in f\nValueError: no\n'
    )
    found = parse_error_message(text, names)
    assert (found.type, found.text, found.frames) == ("ValueError", "no", ())
