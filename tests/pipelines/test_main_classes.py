"""Tests of elements whose classes the user's script defines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from job_server import JobServerProcess

SECONDS = 120
SCRIPT = """
import os
import sys
from typing import NamedTuple
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

class Point(NamedTuple):
    x: int

class Plain:
    def __init__(self, x):
        self.x = x

def made(x):
    return x % 2, (Point(x), Plain(x))

def is_right(pair):
    return isinstance(pair[0], Point) and isinstance(pair[1], Plain)

def told(group):
    # It mentions no class: what it reads was made of classes that other functions have brought.
    return f"{group[0]} {sorted(point.x + plain.x for point, plain in group[1])}"

def checked(group):
    return f"{group[0]} {sorted(pair[0].x for pair in group[1] if is_right(pair))}"

def run():
    with beam.Pipeline(options=PipelineOptions(sys.argv[2:])) as p:
        grouped = p | beam.Create([1, 2, 3]) | beam.Map(made) | beam.GroupByKey()
        texts = (grouped | "told" >> beam.Map(told), grouped | "checked" >> beam.Map(checked))
        (texts | beam.Flatten() | beam.Reshuffle()
           | beam.io.WriteToText(sys.argv[1], num_shards=1, shard_name_template=""))

if __name__ == "__main__":
    try:
        run()
        code = 0
    except Exception as error:
        print(error)
        code = 1
    # gRPC may hang or abort where an interpreter ends (grpc/grpc#40620): the pipeline is done by then.
    sys.stdout.flush()
    os._exit(code)
"""


def run_script(folder: Path, text: str, flags: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "main.py").write_text(text)
    return subprocess.run(
        [sys.executable, "main.py", str(folder / "out"), "--runner=PortableRunner", *flags],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK"])
def test_main_module_classes_are_pickled_with_functions(
    server: JobServerProcess,
    flags_of: Callable[[str], list[str]],
    environment: str,
    tmp_path: Path,
) -> None:
    flags = [f"--job_endpoint={server.address}", *flags_of(environment)]
    done = run_script(tmp_path, SCRIPT, flags)
    assert done.returncode == 0, done.stdout
    lines = sorted((tmp_path / "out").read_text().splitlines())
    assert lines == ["0 [2]", "0 [4]", "1 [1, 3]", "1 [2, 6]"]


def test_missing_main_module_class_error_names_the_fix(
    server: JobServerProcess, tmp_path: Path
) -> None:
    text = SCRIPT.replace(
        "beam.Create([1, 2, 3]) | beam.Map(made)", "beam.Create([(1, Plain(1))])"
    ).replace("isinstance(pair[1], Plain)", "True")
    done = run_script(tmp_path, text, [f"--job_endpoint={server.address}"])
    assert done.returncode == 1
    assert "--save_main_session, or --environment_type=LOOPBACK" in done.stdout
