"""Tests of the example runner on Dask, which uses the packages without Spark."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from jobs import pickle_by_value
from page_sessions import play_page, reason_without_namespaces
from waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 120
LEAST_PASSED = 60
"""Of the 67 tests of Beam's suite for its own runner."""


@pytest.fixture(autouse=True, scope="module")
def _send_along() -> None:
    pickle_by_value(__name__)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of the second runner's server."""
    file = tmp_path_factory.mktemp("second") / "port"
    program = str(ROOT / "examples" / "second_runner" / "serve.py")
    flags = ("--job-port=0", f"--port-file={file}", "--cores=2", "--max-stream-attempts=2")
    server = subprocess.Popen([sys.executable, program, *flags], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert "(Dask, " in server.stdout.readline()
    yield file.read_text()
    server.terminate()
    assert server.wait(SECONDS) == 0


def pipeline(address: str, *flags: str) -> beam.Pipeline:
    options = [f"--job_endpoint={address}", *flags]
    return beam.Pipeline(runner="PortableRunner", options=PipelineOptions(options))


def test_second_runner_imports_no_spark() -> None:
    assert importlib.util.find_spec("pyspark") is None


def test_second_runner_readme_commands_have_the_documented_output(tmp_path: Path) -> None:
    if reason := reason_without_namespaces():
        pytest.skip(f"NOT RUN: {reason}")
    done = play_page("examples/second_runner/README.md", tmp_path, SECONDS)
    assert done.returncode == 0, done.stdout


def test_second_runner_counts_words(address: str) -> None:
    with pipeline(address) as p:
        words = p | beam.Create(["a b a", "b a"]) | beam.FlatMap(str.split)
        counted = words | beam.combiners.Count.PerElement()
        assert_that(counted, equal_to([("a", 3), ("b", 2)]))


class Sums(beam.DoFn):
    """DoFn that sums the values of a key, and emits the sum when the window ends."""

    total = userstate.CombiningValueStateSpec("total", sum)
    end = userstate.TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        window: beam.window.IntervalWindow = beam.DoFn.WindowParam,
        total: userstate.CombiningValueRuntimeState = beam.DoFn.StateParam(total),
        end: userstate.RuntimeTimer = beam.DoFn.TimerParam(end),
    ) -> None:
        total.add(element[1])
        end.set(window.end)

    @userstate.on_timer(end)
    def at_end(
        self,
        key: str = beam.DoFn.KeyParam,
        total: userstate.CombiningValueRuntimeState = beam.DoFn.StateParam(total),
    ) -> Iterator[tuple[str, int]]:
        yield key, total.read()


def test_second_runner_fires_timers_of_a_stateful_stream(address: str) -> None:
    with pipeline(address, "--streaming") as p:
        stream = TestStream().advance_watermark_to(0)
        stream = stream.add_elements([("a", 1), ("b", 5)], event_timestamp=1)
        stream = stream.advance_watermark_to(10).add_elements([("a", 2)], event_timestamp=11)
        stream = stream.advance_watermark_to_infinity()
        windows = p | stream | beam.WindowInto(beam.window.FixedWindows(10))
        assert_that(windows | beam.ParDo(Sums()), equal_to([("a", 1), ("b", 5), ("a", 2)]))


def test_second_runner_cancels_a_job_with_sleeping_user_code(address: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def sleep(seconds: int) -> None:
        begun.touch()
        time.sleep(seconds)

    p = pipeline(address)
    _ = p | beam.Create([SECONDS]) | beam.Map(sleep)
    running = p.run()
    wait_until(begun.exists, SECONDS, "user code sleeps")
    running.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        running.wait_until_finish()


def test_second_runner_passes_the_beam_suite(address: str, tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    suite = (
        "tests/validates_runner",
        "-k",
        "fn_runner and default and not other_client_options",
        "-n2",
    )
    command = [sys.executable, "-m", "pytest", *suite, f"--address={address}"]
    subprocess.run([*command, f"--junitxml={results}"], cwd=ROOT, check=False)
    cases = ElementTree.parse(results).getroot().iter("testcase")
    passed = sum(len(case) == 0 for case in cases)
    assert passed >= LEAST_PASSED
