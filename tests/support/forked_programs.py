"""Programs in processes that are forked after the imports, so that a test of a program takes no
seconds for the imports of Beam and Spark.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

SERVER = "beam-spark-jobserver"
"""Name of the program that starts a server, or sends a command to a server."""
_LIMIT_SECONDS = 60.0
_IMPORTS = ["apache_beam", "beam_spark_executor.cli", "beam_runner_server.job_server"]


@attrs.frozen
class EndedProgram:
    """A program that has ended.

    Attributes:
        code: the exit code.
        output: what the program wrote to its standard output and its standard error.
        seconds: wall seconds, without the imports of Beam.
    """

    code: int | None
    output: str
    seconds: float


def run_forked_program(
    outputs: Path,
    folder: Path,
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> EndedProgram:
    """Runs a program in a folder until its end.

    Args:
        outputs: folder for the file with the program's output.
        folder: working directory of the program.
        program: `SERVER`, or the name of a script in the folder.

    Raises:
        AssertionError: the program runs for more than a minute.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTS)
    output = outputs / "output"
    process = context.Process(
        target=_run_program,
        args=(folder, output, program, tuple(arguments), dict(environment or {})),
    )
    began = time.monotonic()
    process.start()
    process.join(_LIMIT_SECONDS)
    seconds = time.monotonic() - began
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"the program did not end, and has written: {output.read_text()}")
    return EndedProgram(process.exitcode, output.read_text(), seconds)


def _run_program(
    folder: Path,
    output: Path,
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> None:
    """Runs a program in this process, which ends with the exit code of the program."""
    os.chdir(folder)
    os.environ.update(environment)
    with output.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = [program, *arguments]
    if program == SERVER:
        from beam_spark_executor.cli import main

        sys.exit(main())
    sys.path.insert(0, str(folder))
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != program:
            trace = trace.tb_next  # frames before those of the script
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        sys.exit(1)
