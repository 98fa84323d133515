from __future__ import annotations

import pytest

from beam_spark_executor.client.error_texts import format_failure, shorten_failure

OURS = """\
  File "/site-packages/beam_runner_embedded/par_do.py", line 127, in _map_values
    out = results_of(islice(left, room))
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
BEAMS = """\
  File "apache_beam/runners/common.py", line 7, in process
"""
USERS = """\
  File "/home/me/words.py", line 6, in divide
    return 1 // number
           ~~^^~~~~~~~
"""
HEAD = "Traceback (most recent call last):\n"
SUMMARY = "ValueError: no [while running 'Divide']"
WHERE = f"{SUMMARY}; the element: 2"


def test_shortened_error_text_ends_with_step_and_element() -> None:
    text = f"{SUMMARY}\nThe element: 2\n{HEAD}{OURS}{BEAMS}{USERS}ValueError: no\n"
    assert shorten_failure(text) == f"{HEAD}{USERS}{WHERE}"


def test_shortened_error_text_includes_cause_of_exception() -> None:
    cause = f"{HEAD}{OURS}{USERS}KeyError: 'a'\n\nDuring handling of the above exception, ...:\n\n"
    text = f"{SUMMARY}\n{cause}{HEAD}{OURS}{USERS}ValueError: no"
    shown = shorten_failure(text)
    assert "KeyError: 'a'" in shown
    assert "beam_runner" not in shown
    assert shown.splitlines()[-1] == SUMMARY


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'Sum' failed 4 times", "'Sum' failed 4 times"),
        (f"{SUMMARY}\n{HEAD}{OURS}ValueError: no", SUMMARY),
        (
            f"{SUMMARY}\n{HEAD}{USERS}ValueError: no\nsecond line",
            f"{HEAD}{USERS}ValueError: no\nsecond line\n{SUMMARY}",
        ),
    ],
)
def test_error_text_without_frames_of_user_code_is_one_line(text: str, shown: str) -> None:
    assert shorten_failure(text) == shown


def test_verbose_error_text_has_all_frames() -> None:
    text = f"{SUMMARY}\n{HEAD}{OURS}{USERS}ValueError: no"
    assert OURS in format_failure("job-1", "FAILED", text, is_verbose=True)
    assert OURS not in format_failure("job-1", "FAILED", text, is_verbose=False)


def test_one_line_error_text_is_on_line_of_job_state() -> None:
    text = format_failure("job-1", "FAILED", "no worker", is_verbose=False)
    assert text == "Pipeline job-1 failed in state FAILED: no worker"


def test_long_error_text_is_shortened_unless_verbose() -> None:
    text = f"ValueError: {'x' * 100_000} [while running 'Step']"
    short = format_failure("job-1", "FAILED", text, is_verbose=False)
    assert len(short) < 5000
    assert short.endswith("xxx [while running 'Step']")
    assert text in format_failure("job-1", "FAILED", text, is_verbose=True)
