"""Errors of a job, grouped: by type, step and the line of the user's code in which they were raised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs
from beam_runner_jobservices import Importance, JobMessage

from .steps import StepTree
from .texts import one_line, seconds_of

_WHERE = re.compile(r"\[?while running '(?P<step>.+?)'")
_PREFIX = re.compile(r"^\[(?P<step>[^\n]+?)\] ")
_FRAME = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>.+)\n'
    r"(?:(?!\s*File )[ \t]+(?P<code>.+)\n)?",
    re.MULTILINE,
)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_TRACEBACK = "Traceback (most recent call last):"
_NOT_THE_USERS = (
    "/apache_beam/",
    "/beam_runner_",
    "/beam_spark_executor/",
    "/site-packages/",
    "/dist-packages/",
    "<frozen ",
    "/pyspark/",
)
_STANDARD_LIBRARY = re.compile(r"/lib/python3\.\d+/")


@attrs.frozen
class Frame:
    """A line of a traceback; `users` says whether it is of the user's own code."""

    file: str
    line: int
    function: str
    code: str
    users: bool

    @property
    def place(self) -> str:
        """The line in few words."""
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


@attrs.frozen
class Failure:
    """What was raised, and where; `step` is a step's id, or empty."""

    type: str
    text: str
    step: str
    frames: tuple[Frame, ...] = ()
    trace: str = ""

    @property
    def users_frame(self) -> Frame | None:
        """The innermost line of the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.users), None)


@attrs.frozen
class FailureGroup:
    """Failures of the same type, step and place; times are wall-clock seconds."""

    failure: Failure
    count: int
    first: float | None
    last: float | None


def step_of(text: str, tree: StepTree) -> tuple[str, str]:
    """The id of the step that a message is about, and the text without the step's name.

    The name stands in brackets before the text; brackets around anything else belong to the text.
    """
    found = _PREFIX.match(text)
    if found is not None:
        for end in (found.end("step"), *_ends(text)):
            step = tree.find(text[1:end]) if text[end : end + 2] == "] " else ""
            if step and text[1:end].startswith(tree.steps[step].name):
                return step, text[end + 2 :]
    return "", text


def _ends(text: str) -> list[int]:
    """Where brackets close in the first line: names may hold some, too."""
    line = text.partition("\n")[0]
    return [at for at, character in enumerate(line[:1_000]) if character == "]"]


def failure_of(text: str, tree: StepTree) -> Failure:
    """What an error message tells."""
    step, body = step_of(text, tree)
    if not step and (where := _WHERE.search(body)):
        step = tree.find(where["step"])
    before, found, after = body.partition(_TRACEBACK)
    # Of errors that raised each other the last one counts.
    trace = (found + after).rpartition(_TRACEBACK)[2] if found else ""
    frames = tuple(
        Frame(
            one["file"],
            int(one["line"]),
            one["function"],
            (one["code"] or "").strip(),
            is_users(one["file"]),
        )
        for one in _FRAME.finditer(trace)
    )
    kind, words = _raised(before, trace)
    return Failure(kind, words, step, frames, (found + after).strip())


def _raised(before: str, trace: str) -> tuple[str, str]:
    """Type and text: from the end of the traceback, else from what stands before it."""
    lines = [line for line in trace.splitlines() if line and not line.startswith((" ", "\t"))]
    for line in reversed(lines):
        found = _RAISED.match(_WHERE.split(line)[0].rstrip(" ["))
        if found is not None:
            return found["type"].rpartition(".")[2], found["text"] or ""
    line = _WHERE.split(one_line(before, 2_000))[0].rstrip(" [")
    found = _RAISED.match(line)
    if found is not None and found["type"].endswith(("Error", "Exception", "Interrupt", "Exit")):
        return found["type"].rpartition(".")[2], found["text"] or ""
    return "", line


def is_users(file: str) -> bool:
    """Whether a file is the user's own: no library's, and not a part of Beam or of this runner."""
    return not any(part in file for part in _NOT_THE_USERS) and not _STANDARD_LIBRARY.search(file)


def group(messages: Iterable[JobMessage], tree: StepTree) -> Sequence[FailureGroup]:
    """The errors among `messages`, the latest group first."""
    groups: dict[tuple[object, ...], FailureGroup] = {}
    for message in messages:
        if message.importance < Importance.ERROR:
            continue
        failure = failure_of(message.text, tree)
        frame = failure.users_frame or (failure.frames[-1] if failure.frames else None)
        place = (frame.file, frame.line) if frame else one_line(failure.text)
        key = (failure.type, failure.step, place)
        time = seconds_of(message.time)
        known = groups.pop(key, None)
        groups[key] = FailureGroup(
            failure, (known.count if known else 0) + 1, known.first if known else time, time
        )
    return tuple(reversed(groups.values()))
