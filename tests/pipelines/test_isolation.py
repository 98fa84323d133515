"""Tests that jobs of different programs never use modules and options of other jobs."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from job_server import JobServerProcess

SECONDS = 120
# Two programs like this program differ in the results of their functions; both run as `__main__`.
PROGRAM = """
import os
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
import helper

GREETING = "{greeting}"

class Greeter:
    def greet(self, name):
        return GREETING + " " + name + " " + helper.mark()

class Greet(beam.DoFn):
    def process(self, name):
        yield Greeter().greet(name)

def shout(text):
    return text + "{mark}"

def run():
    options = PipelineOptions(sys.argv[2:])
    with beam.Pipeline(options=options) as p:
        (p | beam.Create(["ann", "bob"]) | beam.Reshuffle() | beam.ParDo(Greet()) | beam.Map(shout)
           | beam.io.WriteToText(sys.argv[1], num_shards=1, shard_name_template=""))

if __name__ == "__main__":
    run()
    # gRPC may hang or abort where an interpreter ends (grpc/grpc#40620): the pipeline is done by then.
    sys.stdout.flush()
    os._exit(0)
"""
# Stays on the submitter's machine: its function is sent along by value.
HELPER = """
from apache_beam.internal.cloudpickle import cloudpickle
import sys
cloudpickle.register_pickle_by_value(sys.modules[__name__])

def mark():
    return "{mark}"
"""

VARIANTS = {
    "as-users-do": [],
    "main-session": ["--save_main_session"],
    # Without its main session, dill leaves the globals of `__main__` behind.
    "dill": ["--pickle_library=dill", "--save_main_session"],
}


class Program:
    """A folder with a `main.py`, and a run of it."""

    def __init__(self, folder: Path, greeting: str, mark: str, *, dill: bool) -> None:
        self._folder = folder
        self._expected = [f"{greeting} ann {mark}{mark}", f"{greeting} bob {mark}{mark}"]
        folder.mkdir()
        text = PROGRAM.format(greeting=greeting, mark=mark)
        if dill:
            # dill pickles modules by name, so modules other than `__main__` must be installed
            # everywhere.
            text = text.replace(
                "import helper", f'class helper:\n    mark = staticmethod(lambda: "{mark}")'
            )
        (folder / "main.py").write_text(text)
        (folder / "helper.py").write_text(HELPER.format(mark=mark))

    def start(self, address: str, flags: list[str]) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-X", "faulthandler", "main.py", str(self._folder / "out")),
                *("--runner=PortableRunner", f"--job_endpoint={address}", *flags),
            ],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def check(self, server: JobServerProcess) -> None:
        """Waits for the end and checks the answer."""
        try:
            said, _ = self._process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # prints the stacks of its threads
            said, _ = self._process.communicate(timeout=SECONDS)
            stuck = f"no end within {SECONDS} s. The server: {server.log[-5:]}. The program: {said}"
            pytest.fail(stuck, pytrace=False)
        assert self._process.returncode == 0, said
        assert sorted((self._folder / "out").read_text().splitlines()) == self._expected


@pytest.mark.parametrize(
    "concurrently",
    [
        pytest.param(False, id="in-turn", marks=pytest.mark.slow_in("main-session", "dill")),
        pytest.param(True, id="at-once", marks=pytest.mark.slow_in("as-users-do", "main-session")),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_jobs_of_programs_with_the_same_module_name_use_their_own_module(
    server: JobServerProcess, tmp_path: Path, variant: str, concurrently: bool
) -> None:
    dill = "dill" in variant
    if dill and importlib.util.find_spec("dill") is None:
        pytest.skip("dill is not installed")
    programs = [
        Program(tmp_path / "one", "hello", "!", dill=dill),
        Program(tmp_path / "two", "good bye", "?", dill=dill),
    ]
    for program in programs:
        program.start(server.address, VARIANTS[variant])
        if not concurrently:
            program.check(server)
    if concurrently:
        for program in programs:
            program.check(server)
    server.wait_until_idle()
