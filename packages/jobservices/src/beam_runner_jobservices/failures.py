"""Parser of error messages: type, step, element, and frames of the traceback, of which frames of
user code are marked.
"""

from __future__ import annotations

import re

import attrs
from beam_runner_model.failures import FailedBundle, JobFailure
from beam_runner_model.jobs import MessageRecord

from beam_runner_jobservices.step_names import StepNames

_WHERE = re.compile(r"\[?while running '(?P<step>.+?)'")
_LONGEST_NAME = 2_000
_LONGEST_LINE = 2_000
_FRAME = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>.+)\n'
    r"(?:(?!\s*File )[ \t]+(?P<code>.+)\n)?",
    re.MULTILINE,
)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_TRACEBACK = "Traceback (most recent call last):"
_NOT_THE_USERS = (
    "/apache_beam/",
    "/beam_runner_",
    "/beam_spark_",
    "/site-packages/",
    "/dist-packages/",
    "<frozen ",
    "<attrs generated ",
    "/pyspark/",
)
_STANDARD_LIBRARY = re.compile(r"/lib/python3\.\d+/")


@attrs.frozen
class TracebackFrame:
    """Frame of a traceback. `users` is whether the frame belongs to user code."""

    file: str
    line: int
    function: str
    code: str = ""
    users: bool = False

    @property
    def place(self) -> str:
        """File name, line and function of the frame, for display."""
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


@attrs.frozen
class ExceptionReport:
    """Parsed error message: the exception, its step, and its traceback.

    Attributes:
        step: the id of a transform, or empty.
        element: the element that was processed, as the worker showed it.
        cause: the value of a `FailureCause`, or of a `JobFailureKind` if no bundle caused the error.
            Empty for messages of other job servers.
        bundle: the number of the failed bundle; None if unknown.
    """

    type: str
    text: str
    step: str
    frames: tuple[TracebackFrame, ...] = ()
    trace: str = ""
    element: str = ""
    cause: str = ""
    bundle: int | None = None

    @property
    def innermost_user_frame(self) -> TracebackFrame | None:
        """The innermost frame of user code."""
        return next((frame for frame in reversed(self.frames) if frame.users), None)


def parse_error_message(
    text: str, names: StepNames, record: MessageRecord = None
) -> ExceptionReport:
    """Parses an error message: its machine-readable record if there is one, otherwise its text."""
    failed = record.failure if isinstance(record, JobFailure) else record
    step, body = names.split_step_name(text)
    if failed is not None:
        step = names.find_step(failed.step)
    elif not step and (where := _WHERE.search(body)):
        named = _find_named_step(body[where.start("step") :][:_LONGEST_NAME], names)
        step = named or names.find_step(where["step"])
    before, found, after = body.partition(_TRACEBACK)
    # In a chain of exceptions, use the last printed exception, which is the exception that was raised.
    trace = (found + after).rpartition(_TRACEBACK)[2] if found else ""
    frames = tuple(
        TracebackFrame(
            one["file"],
            int(one["line"]),
            one["function"],
            (one["code"] or "").strip(),
            is_user_code(one["file"]),
        )
        for one in _FRAME.finditer(trace)
    )
    kind, words = _parse_exception(
        record.error if isinstance(record, FailedBundle) else before, trace
    )
    cause = "" if record is None else (record if failed is None else failed).kind
    element = "" if failed is None else failed.element
    bundle = None if failed is None else failed.bundle
    whole = (found + after).strip()
    return ExceptionReport(kind, words, step, frames, whole, element, str(cause), bundle)


def _find_named_step(text: str, names: StepNames) -> str:
    """Returns the step with whose name `text` starts, before a quote. Names can contain quotes, too."""
    before = (text[: quote.start()] for quote in re.finditer("'", text))
    return next((step for name in before if (step := names.find_step_by_full_name(name))), "")


def _parse_exception(before: str, trace: str) -> tuple[str, str]:
    """Returns the type and text of the exception, from the end of the traceback or the text before it."""
    lines = [line for line in trace.splitlines() if line and not line.startswith((" ", "\t"))]
    for line in reversed(lines):
        found = _RAISED.match(_WHERE.split(line)[0].rstrip(" ["))
        if found is not None:
            return found["type"].rpartition(".")[2], found["text"] or ""
    line = _WHERE.split(before.strip().partition("\n")[0][:_LONGEST_LINE])[0].rstrip(" [")
    found = _RAISED.match(line)
    if found is not None and found["type"].endswith(("Error", "Exception", "Interrupt", "Exit")):
        return found["type"].rpartition(".")[2], found["text"] or ""
    return "", line


def is_user_code(file: str) -> bool:
    """Returns whether a file belongs to user code, and not to a library, Beam or a runner."""
    # Compiled modules of Beam report paths that begin with the package name.
    whole = f"/{file}"
    return not any(part in whole for part in _NOT_THE_USERS) and not _STANDARD_LIBRARY.search(whole)
