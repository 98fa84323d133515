from __future__ import annotations

import attrs
import pytest
from beam_runner_jobservices import Importance, JobMessage, describe_pipeline

from beam_runner_web.failures import failure_of, group, step_of
from beam_runner_web.steps import StepTree

from .conftest import add_step, word_count


@pytest.fixture
def tree() -> StepTree:
    pipeline = word_count()
    add_step(pipeline, "odd", "Map(<lambda at [x] y.py:1>)")
    pipeline.components.transforms["root"].subtransforms.append("odd")
    return StepTree(describe_pipeline(pipeline.SerializeToString()))


def trace(line: int, kind: str = "ValueError: no") -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode\n    raise\n'
        f'  File "/home/me/mine.py", line {line}, in parse\n    int(text)\n'
        '  File "/usr/lib/python3.11/json/decoder.py", line 9, in scan\n    raise no\n'
        f"{kind}"
    )


def error(text: str) -> JobMessage:
    return JobMessage("1", "2026-11-23T02:22:37.232+00:00", Importance.ERROR, text)


def test_the_users_innermost_line_is_found(tree: StepTree) -> None:
    failure = failure_of(f"ValueError: no [while running 'Count']\n{trace(4)}", tree)
    assert (failure.type, failure.text, failure.step) == ("ValueError", "no", "t3")
    assert failure.users_frame is not None
    assert failure.users_frame.place == "mine.py:4 in parse"
    assert failure.users_frame.code == "int(text)"


def test_the_element_that_was_processed_is_told(tree: StepTree) -> None:
    text = f"ValueError: no [while running 'Count']\nThe element: ('a', <b>)\n{trace(4)}"
    failure = failure_of(text, tree)
    assert (failure.element, failure.text) == ("('a', <b>)", "no")
    assert failure_of(f"ValueError: no\n{trace(4)}", tree).element == ""


def test_attempts_that_were_followed_by_another_count(tree: StepTree) -> None:
    text = f"ValueError: no [while running 'Count']\n{trace(4)}"
    again = error(f"attempt 1 at a bundle failed, and it is tried again: {text}")
    again = attrs.evolve(again, importance=Importance.WARNING)
    (found,) = group([again, error(text)], tree)
    assert (found.count, found.retried, found.failure.step) == (2, 1, "t3")


def test_an_error_as_an_sdk_over_the_fn_api_tells_it(tree: StepTree) -> None:
    text = "Error processing instruction 5. Original traceback is\n" + trace(
        4, "mine.Bad: a b [while running 'Read/Lines']"
    )
    failure = failure_of(text, tree)
    assert (failure.type, failure.text, failure.step) == ("Bad", "a b", "t2")


def test_of_errors_that_raised_each_other_the_last_counts(tree: StepTree) -> None:
    text = f"x\n{trace(1)}\n\nDuring handling of the above exception:\n\n{trace(2, 'KeyError: 7')}"
    failure = failure_of(text, tree)
    assert (failure.type, failure.text) == ("KeyError", "7")
    assert failure.users_frame is not None and failure.users_frame.line == 2


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("Spark has ended unexpectedly", "", "Spark has ended unexpectedly"),
        ("ValueError: 5", "ValueError", "5"),
        ("'Write' was tried 4 times: lost", "", "'Write' was tried 4 times: lost"),
        ("", "", ""),
    ],
)
def test_an_error_without_a_traceback(tree: StepTree, text: str, kind: str, words: str) -> None:
    failure = failure_of(text, tree)
    assert (failure.type, failure.text, failure.frames) == (kind, words, ())


def test_errors_of_one_place_are_one_group(tree: StepTree) -> None:
    same = [error(f"ValueError: {n} [while running 'Count']\n{trace(4)}") for n in range(3)]
    other = error(f"ValueError: no [while running 'Count']\n{trace(5)}")
    groups = group([*same, other, JobMessage("9", "", Importance.WARNING, "no error")], tree)
    assert [one.count for one in groups] == [1, 3]


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
def test_a_messages_step_stands_in_brackets(
    tree: StepTree, text: str, step: str, rest: str
) -> None:
    assert step_of(text, tree) == (step, rest)


def test_compiled_modules_of_beam_are_not_the_users(tree: StepTree) -> None:
    text = trace(4).replace("/usr/lib/python3.11/json/decoder.py", "apache_beam/runners/common.py")
    failure = failure_of(f"ValueError: no [while running 'Count']\n{text}", tree)
    assert [frame.function for frame in failure.frames if frame.users] == ["parse"]


def test_a_step_whose_name_holds_quotes_is_found() -> None:
    pipeline = word_count()
    add_step(pipeline, "odd", "Ev\"il' <img> 's")
    pipeline.components.transforms["root"].subtransforms.append("odd")
    odd = StepTree(describe_pipeline(pipeline.SerializeToString()))
    text = f"ValueError: no [while running 'Ev\"il' <img> 's']\n{trace(4)}"
    assert failure_of(text, odd).step == "odd"
