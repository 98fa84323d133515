"""Tests that both harnesses refuse an element above the limit with the name of its transform."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms import userstate

sys.path.insert(0, str(Path(__file__).parents[2] / "worker" / "tests" / "fnapi"))

from beam_runner_model.chunks import FlushBarrier
from beam_runner_worker import limits
from beam_runner_worker.errors import BundleError
from beam_runner_worker.fnapi.server import FnApiServer
from mini_runner import MiniRunner
from stateful_host import StatefulStage
from tiny_host import Artifacts, Logs, TinyHost, create_job, external, pickle_by_value

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
LIMIT = 1 << 20
ALLOWED = LIMIT
TOO_LARGE = 4 << 20
WRITERS = {
    "grouped": "Outer/Pair",
    "stored": "Reshuffle/ReshufflePerKey/Map(reify_metadata_default_window)",
}


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_ELEMENT_BYTES", LIMIT)


def pipeline(size: int, kind: str) -> beam.Pipeline:
    """Returns a pipeline that emits an element of this size to a buffer of this kind."""
    p = beam.Pipeline()
    made = p | beam.Impulse() | "Outer/Make" >> beam.Map(lambda _, size=size: b"x" * size)
    if kind == "grouped":
        pair = beam.Map(lambda value: (7, value)).with_output_types(tuple[int, bytes])
        made | "Outer/Pair" >> pair | beam.GroupByKey() | beam.Map(lambda group: group[0])
    else:
        made | beam.Reshuffle() | beam.Map(len)
    return p


def run_embedded(p: beam.Pipeline) -> None:
    MiniRunner(p).run()


def run_over_fn_api(p: beam.Pipeline) -> None:
    address, pool = BeamFnExternalWorkerPoolServicer.start()
    host = TinyHost(p)
    job = create_job(external(address), environments=host.environment_ids)
    server = FnApiServer(job, Artifacts(), Logs())
    try:
        host.run(server.get_harness)
    finally:
        server.close()
        pool.stop(0).wait(5)


def kinds() -> Iterator[pytest.ParameterSet]:
    for run in (run_embedded, run_over_fn_api):
        for kind in ("grouped", "stored"):
            yield pytest.param(run, kind, id=f"{run.__name__} {kind}")


@pytest.mark.parametrize(("run", "kind"), list(kinds()))
def test_element_above_size_limit_is_refused_with_transform_name(run, kind: str) -> None:
    run(pipeline(ALLOWED, kind))
    with pytest.raises(BundleError, match=r"4\d{6} bytes.* maximum is 1048576: emit") as failed:
        run(pipeline(TOO_LARGE, kind))
    assert "ElementTooLarge" in failed.value.summary
    assert failed.value.transform == WRITERS[kind]


class Keep(beam.DoFn):
    """A DoFn that stores values in state and emits none."""

    BAG = userstate.BagStateSpec("bag", coders.BytesCoder())

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:  # noqa: B008
        bag.add(element[1])


@pytest.mark.parametrize("count", [1, 3])
def test_state_element_above_size_limit_is_refused_with_transform_name(count: int) -> None:
    def keep(size: int) -> None:
        stage = StatefulStage(Keep(), tuple[str, bytes])
        stage.run(stage.elements(*[("k", b"x" * size)] * count), FlushBarrier())

    keep(LIMIT - 10)
    with pytest.raises(
        BundleError, match=r"in state has 4\d{6} bytes.* maximum is 1048576: store"
    ) as failed:
        keep(TOO_LARGE)
    assert "ElementTooLarge" in failed.value.summary
    assert failed.value.transform == "Stateful"


def test_element_above_size_limit_is_refused_before_copy() -> None:
    """Memory holds only the element and its encoding, whose buffer doubles as it grows."""
    size = 64 * LIMIT
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="ElementTooLarge"):
            run_embedded(pipeline(size, "grouped"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{peak / size:.1f} times its size")
    assert peak < 1.5 * size
