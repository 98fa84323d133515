"""Errors of a job, grouped: by type, step and the line of the user's code in which they were raised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs
from beam_runner_jobservices import Importance, JobMessage

from .steps import StepTree
from .texts import one_line, seconds_of

_WHERE = re.compile(r"\[?while running '(?P<step>.+?)'")
_LONGEST_NAME = 2_000
_PREFIX = re.compile(r"^\[(?P<step>[^\n]+?)\] ")
_FRAME = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>.+)\n'
    r"(?:(?!\s*File )[ \t]+(?P<code>.+)\n)?",
    re.MULTILINE,
)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_ELEMENT = re.compile(r"^The element: (?P<element>.+)$", re.MULTILINE)
_AGAIN = re.compile(r"^attempt \d+ at a bundle failed, and it is tried again: ")
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
    """What was raised, and where; `step` is a step's id, or empty.

    `element` is what was processed, as the worker has shown it.
    """

    type: str
    text: str
    step: str
    frames: tuple[Frame, ...] = ()
    trace: str = ""
    element: str = ""

    @property
    def users_frame(self) -> Frame | None:
        """The innermost line of the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.users), None)


@attrs.frozen
class FailureGroup:
    """Failures of the same type, step and place; times are wall-clock seconds.

    `retried` of them were of attempts that were followed by another.
    """

    failure: Failure
    count: int
    first: float | None
    last: float | None
    retried: int = 0


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
    step, body = step_of(_AGAIN.sub("", text), tree)
    if not step and (where := _WHERE.search(body)):
        step = _named(body[where.start("step") :][:_LONGEST_NAME], tree) or tree.find(where["step"])
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
    shown = _ELEMENT.search(before)
    element = shown["element"] if shown else ""
    return Failure(kind, words, step, frames, (found + after).strip(), element)


def _named(text: str, tree: StepTree) -> str:
    """The step whose name `text` begins with, before a quote: names may hold quotes, too."""
    names = (text[: quote.start()] for quote in re.finditer("'", text))
    return next((step for name in names if (step := tree.named(name))), "")


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
    # Compiled modules of Beam tell paths that begin with the package.
    whole = f"/{file}"
    return not any(part in whole for part in _NOT_THE_USERS) and not _STANDARD_LIBRARY.search(whole)


def group(messages: Iterable[JobMessage], tree: StepTree) -> Sequence[FailureGroup]:
    """The errors among `messages`, the latest group first: also what was raised and only warned of, as
    attempts at a bundle that were followed by another.
    """
    groups: dict[tuple[object, ...], FailureGroup] = {}
    for message in messages:
        again = _AGAIN.match(message.text) is not None
        if message.importance < Importance.ERROR and not again:
            continue
        failure = failure_of(message.text, tree)
        frame = failure.users_frame or (failure.frames[-1] if failure.frames else None)
        place = (frame.file, frame.line) if frame else one_line(failure.text)
        key = (failure.type, failure.step, place)
        time = seconds_of(message.time)
        known = groups.pop(key, None)
        groups[key] = FailureGroup(
            failure,
            (known.count if known else 0) + 1,
            known.first if known else time,
            time,
            (known.retried if known else 0) + again,
        )
    return tuple(reversed(groups.values()))
