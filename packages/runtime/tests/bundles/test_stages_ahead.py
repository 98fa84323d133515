"""Stages that a worker process prepares before their bundles come."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_model.buffers import BufferKind, SideInputUse
from beam_runner_planner.plan import JobPlan
from beam_runner_worker.errors import HarnessError
from sample_buffers import buffer
from served_process import SECONDS, Serve, Served, nothing
from small_plans import bundle_of, elements, plan_of, stage
from waiting import wait_until
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles import stages as stages_module
from beam_runner_runtime.channel.messages import BundleReply, CloseLane, RunBundle


def chain(*, embedded: bool) -> JobPlan:
    """Three stages in a row, and one aside in another environment."""
    one = [
        stage("one", "in", {"out": "a", "aside": "b"}),
        stage("two", "a", {"out": "c"}),
        stage("three", "c"),
        stage("aside", "b"),
    ]
    other = attrs.evolve(one[3].spec, environment_id="another environment")
    stages = [
        attrs.evolve(s, embedded=embedded) for s in (*one[:3], attrs.evolve(one[3], spec=other))
    ]
    return plan_of(stages, [buffer(b, BufferKind.STORED) for b in ("in", "a", "b", "c")])


@pytest.mark.parametrize(("embedded", "ahead"), [(False, ["one", "two"]), (True, ["one"])])
def test_a_stage_that_follows_is_built_while_an_sdk_elsewhere_is_at_work(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, embedded: bool, ahead: list[str]
) -> None:
    built: list[str] = []

    def look(chunk: Any) -> None:
        deadline = time.monotonic() + (SECONDS if len(ahead) > 1 else 0.1)
        while served.environment.built != ahead and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        built.extend(served.environment.built)

    harness = FakeHarness(nothing)
    harness.during = look
    served = serve(harness, chain(embedded=embedded))
    elsewhere = SimpleNamespace(harness=lambda name: served.environment, close=lambda: None)
    monkeypatch.setattr(stages_module, "FnApiServer", lambda *_, **__: elsewhere)
    first = bundle_of(elements("x", b"a"), stage="one")
    served.tell(RunBundle(first, "1-1-1"))
    assert isinstance(served.channel.next(), BundleReply)
    assert built == ahead


TWO = [buffer("in", BufferKind.STORED), buffer("a", BufferKind.STORED)]
FIRST = RunBundle(bundle_of(elements("x", b"a"), stage="one"), "1-1-1")


def after_one(served: Served, folder: Path, *, last: bool = True) -> int:
    """How often a stage is set up by a bundle of the first, all stages being built."""
    for stage_id in served.channel.work.plan.stages:
        served.process.stages.get(stage_id)
    served.process.run_bundle(FIRST, ShardStores(folder), last=last)
    return served.harness.set_ups


def writing() -> FakeHarness:
    """Puts out what it gets."""
    return FakeHarness(lambda values: {"out": values}, {"out": BufferKind.STORED})


@pytest.mark.parametrize(
    ("readers", "streaming", "last", "set_up"),
    [
        ([stage("two", "a")], False, True, 1),
        ([stage("two", "a")], False, False, 0),  # another bundle comes first
        ([stage("two", "a")], True, True, 0),  # nobody knows when a trigger will fire
        ([stage("two", "a"), stage("three", "a")], False, True, 0),  # nobody knows which is next
        ([stage("two", "a", {}, (SideInputUse("two", "s", "in"),))], False, True, 0),
    ],
)
def test_the_only_stage_that_reads_what_is_written_is_set_up(
    serve: Serve,
    tmp_path: Path,
    readers: list[Any],
    streaming: bool,
    last: bool,
    set_up: int,
) -> None:
    plan = plan_of([stage("one", "in", {"out": "a"}), *readers], TWO)
    served = serve(writing(), attrs.evolve(plan, streaming=streaming))
    assert after_one(served, tmp_path, last=last) == set_up


def test_nothing_is_set_up_that_gets_no_data(serve: Serve, tmp_path: Path) -> None:
    plan = plan_of([stage("one", "in", {"out": "a"}), stage("two", "a")], TWO)
    harness = FakeHarness(nothing, {"out": BufferKind.STORED})
    assert after_one(serve(harness, plan), tmp_path) == 0


class Lost(FakeHarness):
    """A harness whose SDK is lost."""

    def set_up(self) -> None:
        raise HarnessError("lost")


def test_a_lost_sdk_fails_no_bundle_that_is_done(serve: Serve, tmp_path: Path) -> None:
    plan = plan_of([stage("one", "in", {"out": "a"}), stage("two", "a")], TWO)
    lost = Lost(lambda values: {"out": values}, {"out": BufferKind.STORED})
    after_one(serve(lost, plan), tmp_path)


def test_the_sdk_of_all_stages_starts_with_the_first_lane(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(writing(), plan_of([attrs.evolve(stage("one"), embedded=False)]))
    elsewhere = SimpleNamespace(harness=lambda name: served.environment, close=lambda: None)
    monkeypatch.setattr(stages_module, "FnApiServer", lambda *_, **__: elsewhere)
    assert served.environment.built == []  # this was another lane
    lane = threading.Thread(target=served.process.serve, args=(0,), daemon=True)
    lane.start()
    wait_until(lambda: served.environment.built == ["one"], SECONDS)
    served.tell(CloseLane())
