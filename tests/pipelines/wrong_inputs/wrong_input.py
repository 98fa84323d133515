"""A wrong input of a user, and what the user must see."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs


class Refusal(enum.Enum):
    """Kind of a refusal."""

    USAGE = "a wrong command line: one line, and exit code 2"
    COMMAND = "a command or server that can't do its work: one line, and exit code 1"
    PROGRAM = "a pipeline that no server runs: an exception, and exit code 1"
    JOB = "a job that fails: an exception with the frames of user code, and exit code 1"

    @property
    def exit_code(self) -> int:
        """Exit code of the program."""
        return 2 if self is Refusal.USAGE else 1

    @property
    def is_one_line(self) -> bool:
        """Whether the program writes the sentence only."""
        return self in (Refusal.USAGE, Refusal.COMMAND)


@attrs.frozen
class WrongInput:
    """A wrong input. ``$NAME`` in a text is a value of the fixture `given`.

    Attributes:
        refusal: kind of the refusal.
        line: arguments of the command, or options of the pipeline.
        says: texts that the sentence contains; one of them is a name that the user gave.
        files: files in the folder of the program, by name. ``main.py`` is the program; without it,
            the program is ``beam-spark-jobserver``.
        environment: environment variables of the program.
    """

    refusal: Refusal
    line: str
    says: tuple[str, ...]
    files: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] = attrs.field(factory=dict)


def make_wrong_flags(line: str, *says: str, **more: Mapping[str, str]) -> WrongInput:
    """Returns a command line that the parser refuses."""
    return WrongInput(Refusal.USAGE, line, says, **more)


def make_wrong_command(line: str, *says: str, **more: Mapping[str, str]) -> WrongInput:
    """Returns a command line that is correct, but that the server or the command refuses."""
    return WrongInput(Refusal.COMMAND, line, says, **more)


def make_refused_program(body: str, line: str, *says: str, **files: str) -> WrongInput:
    """Returns a program whose pipeline is refused. The lines ``body`` build the pipeline ``p``."""
    return WrongInput(Refusal.PROGRAM, line, says, {**files, "main.py": _complete_program(body)})


def make_failing_program(body: str, *says: str) -> WrongInput:
    """Returns a program whose job fails. The lines ``body`` build the pipeline ``p``."""
    files = {"main.py": _complete_program(body)}
    return WrongInput(Refusal.JOB, "--job_endpoint=$server", says, files)


_PROGRAM = """
import os
import signal
import sys
from typing import Tuple

import apache_beam as beam
import apache_beam.transforms.periodicsequence
from apache_beam.options.pipeline_options import PipelineOptions

class Unpicklable(beam.DoFn):
    def __reduce__(self):
        raise TypeError("no pickle of it")

    def process(self, element):
        yield element

class FailIn(beam.DoFn):
    def __init__(self, method):
        self.method = method

    def raise_in(self, method):
        if method == self.method:
            raise ValueError(f"no {method}")

    def setup(self):
        self.raise_in("setup")

    def start_bundle(self):
        self.raise_in("start_bundle")

    def process(self, element):
        self.raise_in("process")
        yield element

    def finish_bundle(self):
        self.raise_in("finish_bundle")

    def teardown(self):
        self.raise_in("teardown")

def raise_error(error):
    raise error

options = PipelineOptions(
    ["--runner=beam_spark_executor.BeamSparkRunner", *sys.argv[1:]], save_main_session=False
)
with beam.Pipeline(options=options) as p:
    numbers = p | beam.Create([1, 2, 3])
"""


def _complete_program(body: str) -> str:
    return _PROGRAM + "".join(f"    {line}\n" for line in body.strip().splitlines())
