"""Tests of Spark tasks of a section, with real plans: their results, and their reproducible bytes."""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.shuffle_blocks import ShuffleBlockKind, read_header
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_planner.plan import JobPlan
from beam_runner_urns import metrics as metric_urns
from plans import Build, make_plan
from section_runs import SHARDS, Host, Parcels, Run, order_of

from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.sections import task as section_task_module
from beam_runner_runtime.sections.inbox import SectionInbox
from beam_runner_runtime.sections.replies import SectionReply
from beam_runner_runtime.sections.shuffle_consistency import find_level_with_mixed_input
from beam_runner_runtime.sections.task_bundles import TaskFailedError

FOUND: list[Any] = []


def keep(element: Any) -> None:
    FOUND.append(element)


def pairs(p: beam.Pipeline, count: int = 400) -> Any:
    made = p | beam.Create(range(count)) | beam.Reshuffle()
    return made | "pair" >> beam.Map(lambda n: (f"k{n % 40:02}", n))


def grouped(p: beam.Pipeline) -> None:
    sums = pairs(p) | beam.GroupByKey() | "sum" >> beam.MapTuple(lambda k, v: (k, sum(v)))
    sums | "keep" >> beam.Map(keep)


def chain(p: beam.Pipeline) -> None:
    some = pairs(p)
    for n in range(3):
        some = some | f"group {n}" >> beam.GroupByKey()
        some = some | f"flat {n}" >> beam.FlatMapTuple(lambda k, v: [(k[-1], one) for one in v])
    some | "keep" >> beam.Map(keep)


def combined(p: beam.Pipeline) -> None:
    pairs(p) | beam.CombinePerKey(sum) | "keep" >> beam.Map(keep)


def joined(p: beam.Pipeline) -> None:
    left = pairs(p)
    right = p | "more" >> beam.Create([(f"k{n:02}", -n) for n in range(40)])
    both = {"left": left, "right": right} | beam.CoGroupByKey()
    sized = both | beam.MapTuple(lambda k, v: (k, len(v["left"]), len(v["right"])))
    sized | "keep" >> beam.Map(keep)


def forked(p: beam.Pipeline) -> None:
    """Builds one stage that writes for two stages of different depth, which come together again."""
    some = pairs(p)
    short = some | "odd" >> beam.Filter(lambda pair: pair[1] % 2)
    long = some | "count" >> beam.combiners.Count.PerKey()
    (
        {"short": short, "long": long}
        | beam.CoGroupByKey()
        | beam.MapTuple(lambda k, v: (k, sorted(v["short"]), list(v["long"])))
        | "keep" >> beam.Map(keep)
    )


def windowed(p: beam.Pipeline) -> None:
    timed = pairs(p) | beam.MapTuple(lambda k, n: TimestampedValue((k, n), n))
    in_sessions = timed | "gaps" >> beam.WindowInto(Sessions(5))
    (
        in_sessions
        | "sessions" >> beam.GroupByKey()
        | beam.MapTuple(lambda k, v: ("s", k, sorted(v)))
        | "keep" >> beam.Map(keep)
    )
    panes = timed | "fixed" >> beam.WindowInto(
        FixedWindows(50),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(3)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    (
        panes
        | "panes" >> beam.GroupByKey()
        | "p" >> beam.MapTuple(lambda k, v: ("p", k, len(list(v))))
        | "keep panes" >> beam.Map(keep)
    )


class Counting(beam.DoFn):
    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> None:
        seen.add(element[1])
        end.set(10)

    @userstate.on_timer(END)
    def ring(
        self,
        key: Any = beam.DoFn.KeyParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
    ) -> Iterator[Any]:
        yield key, sum(seen.read())


def stateful(p: beam.Pipeline) -> None:
    (
        pairs(p)
        | beam.ParDo(Counting())
        | beam.GroupByKey()
        | beam.MapTuple(lambda k, v: (k, *v))
        | "keep" >> beam.Map(keep)
    )


def sums(count: int = 400) -> list[Any]:
    return [(f"k{k:02}", sum(range(k, count, 40))) for k in range(40)]


EXPECTED: dict[Build, list[Any]] = {
    grouped: sums(),
    combined: sums(),
    chain: [(str(n % 10), n) for n in range(400)],
    joined: [(f"k{k:02}", 10, 1) for k in range(40)],
    forked: [(f"k{k:02}", [n for n in range(k, 400, 40) if n % 2], [10]) for k in range(40)],
    stateful: sums(),
}


@pytest.fixture
def found() -> list[Any]:
    FOUND.clear()
    return FOUND


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Any]:
    made: list[Host] = []

    def make(plan: JobPlan) -> Host:
        made.append(Host(plan, tmp_path))
        return made[-1]

    yield make
    for host in made:
        host.close()


def assert_whole(run: Run, reply: SectionReply) -> None:
    assert reply.end is None
    assert find_level_with_mixed_input(reply, run.tasks) is None


@pytest.mark.parametrize("budget", [1 << 30, 2000], ids=["in memory", "in files"])
@pytest.mark.parametrize("build", EXPECTED, ids=lambda build: build.__name__)
def test_section_produces_expected_output(
    build: Build, budget: int, hosts: Any, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section_task_module, "compute_section_budget", lambda: budget)
    plan = make_plan(build)
    run = Run(hosts(plan), order_of(plan))
    assert_whole(run, run.all())
    assert Counter(map(repr, found)) == Counter(map(repr, EXPECTED[build]))
    assert list(run.host.scratch.iterdir()) == []


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_section_has_requested_number_of_tasks(shards: int, hosts: Any, found: list[Any]) -> None:
    """Key shards partition the section's output, and don't change the number of tasks."""

    def build(p: beam.Pipeline) -> None:
        some = pairs(p) | beam.GroupByKey() | beam.FlatMapTuple(lambda k, v: [(k, n) for n in v])
        some | "out" >> beam.GroupByKey() | "keep" >> beam.Map(keep)

    plan = make_plan(build)
    within = [name for name, stage in plan.stages.items() if "keep" not in stage.spec.name]
    run = Run(hosts(plan), order_of(plan, within), shards)
    assert run.tasks[1:] == (shards,) * (run.levels - 1)
    reply = run.all()
    assert_whole(run, reply)
    ends = [one.data.facts for each in reply.outputs for one in each.outputs]
    assert sum(facts.count for facts in ends) == 400
    assert {facts.shard for facts in ends} == set(range(SHARDS))


def test_section_supports_windows_and_panes(hosts: Any, found: list[Any]) -> None:
    plan = make_plan(windowed)
    run = Run(hosts(plan), order_of(plan))
    assert_whole(run, run.all())
    assert sum(one[2] for one in found if one[0] == "p") == 400
    in_sessions = [n for one in found if one[0] == "s" for n in one[2]]
    assert sorted(in_sessions) == list(range(400))


@pytest.fixture
def pool() -> Iterator[str]:
    """Runs user code in SDKs over the Fn API, in threads of this process."""
    address, pool = BeamFnExternalWorkerPoolServicer.start()
    yield address
    pool.stop(0)


@pytest.mark.parametrize("build", [combined, forked, stateful], ids=lambda build: build.__name__)
def test_section_runs_stages_of_external_sdks(
    build: Build, hosts: Any, found: list[Any], pool: str
) -> None:
    plan = make_plan(build, pool)
    assert plan.needs_sdks
    run = Run(hosts(plan), order_of(plan))
    assert_whole(run, run.all())
    assert Counter(map(repr, found)) == Counter(map(repr, EXPECTED[build]))


@pytest.mark.parametrize("build", [forked, windowed, stateful], ids=lambda build: build.__name__)
def test_retried_section_task_with_external_sdk_sends_same_bytes(
    build: Build, hosts: Any, pool: str
) -> None:
    plan = make_plan(build, pool)
    assert_bytes_repeat(Run(hosts(plan), order_of(plan)), random.Random(1))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("budget", [1 << 30, 2000], ids=["in memory", "in files"])
@pytest.mark.parametrize(
    "build", [*EXPECTED, windowed], ids=lambda build: getattr(build, "__name__", "")
)
def test_retried_section_task_sends_same_bytes(
    build: Build, budget: int, seed: int, hosts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes don't depend on the order of Spark's input, or on the attempt."""
    monkeypatch.setattr(section_task_module, "compute_section_budget", lambda: budget)
    plan = make_plan(build)
    host = hosts(plan)
    host.budget = budget
    assert_bytes_repeat(Run(host, order_of(plan)), random.Random(seed))


def assert_bytes_repeat(run: Run, shuffled: random.Random) -> None:
    parcels: Parcels = [[] for _ in range(SHARDS)]
    rows = 0
    for level in range(run.levels):
        for number in range(run.tasks[level]):
            other = list(parcels[number])
            shuffled.shuffle(other)
            first = without_replies(run.task(level, number, parcels[number]))
            assert without_replies(run.task(level, number, other)) == first
            rows += sum(read_header(parcel).kind is ShuffleBlockKind.ROWS for _, parcel in first)
        parcels = run.level(level, parcels)
    assert rows > 2 * SHARDS


def without_replies(sent: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Removes replies, which contain times and file names. These can differ, and aren't part of a digest."""
    return [one for one in sent if read_header(one[1]).kind is not ShuffleBlockKind.REPLY]


# The output of a section.


def test_section_returns_outputs_and_metrics(hosts: Any, tmp_path: Path) -> None:
    def build(p: beam.Pipeline) -> None:
        ended = pairs(p) | beam.GroupByKey() | beam.ParDo(Told())
        ended | "out" >> beam.Reshuffle() | "keep" >> beam.Map(keep)

    plan = make_plan(build)
    within = [name for name, stage in plan.stages.items() if "keep" not in stage.spec.name]
    assert 0 < len(within) < len(plan.stages)
    run = Run(hosts(plan), order_of(plan, within))
    reply = run.all()
    assert_whole(run, reply)
    outputs = [one.data for each in reply.outputs for one in each.outputs]
    assert sum(data.facts.count for data in outputs) == 40
    assert sum(len(list(read_referenced_rows(tmp_path, data.ref))) for data in outputs) >= 1
    counted = [
        VarIntCoder().decode(info.payload)
        for info in reply.metrics
        if info.type == metric_urns.SUM_INT64_TYPE and ("NAME", "keys") in info.labels
    ]
    assert counted == [40]


class Told(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        Metrics.counter("test", "keys").inc()
        yield element[0]


# The end of a section.


class Failing(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        if element == 7:
            raise ValueError("seven")
        yield element


def test_section_with_failing_user_code_ends(hosts: Any, found: list[Any]) -> None:
    def build(p: beam.Pipeline) -> None:
        some = p | beam.Create(range(20)) | beam.Reshuffle() | "bad" >> beam.ParDo(Failing())
        some | "again" >> beam.Reshuffle() | beam.Map(keep)

    plan = make_plan(build)
    run = Run(hosts(plan), order_of(plan))
    reply = run.all()
    assert isinstance(reply.end, BundleFailure)
    assert reply.end.failure is not None
    assert (reply.end.failure.transform, reply.end.failure.summary) == ("bad", "ValueError: seven")
    assert run.host.ends == [reply.end]
    assert found == []  # no stage runs on incomplete input


def test_external_failure_of_section_task_is_reported_while_spark_retries_task(
    hosts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(grouped)
    order = order_of(plan)
    run = Run(hosts(plan), order)
    broken = BundleFailure(order.attempt, None, "HarnessError: it is gone")
    monkeypatch.setattr(run.host, "run_bundle", lambda order, stores, data: broken)
    with pytest.raises(TaskFailedError, match=r"^Create/FlatMap.*: HarnessError: it is gone$"):
        run.all()
    (warning,) = run.host.warnings
    assert "Spark can retry it: Create/FlatMap" in warning


def test_section_ends_with_name_of_unavailable_service(
    hosts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Spark would run the task four times at once, and fail the job."""
    plan = make_plan(grouped)
    order = order_of(plan)
    run = Run(hosts(plan), order)
    store = "the data store at s3://b"
    broken = BundleFailure(order.attempt, None, "away", FailureKind.UNAVAILABLE, store)
    monkeypatch.setattr(run.host, "run_bundle", lambda order, stores, data: broken)
    assert run.all().end == broken
    assert set(run.host.ends) == {broken}


def test_section_ends_with_name_of_full_disk_in_task(
    hosts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(grouped)
    run = Run(hosts(plan), order_of(plan))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SectionInbox, "store_block", full)
    with pytest.raises(OSError, match="No space left"):
        run.all()
    (told,) = set(run.host.ends)
    assert isinstance(told, BundleFailure)
    assert told.kind is FailureKind.UNAVAILABLE
    assert told.neighbour.startswith("the disk of ")


class Finalizing(beam.DoFn):
    def process(
        self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[Any]:
        finalizer.register(lambda: None)
        yield element


def test_section_that_requires_separate_commit_is_refused(hosts: Any, found: list[Any]) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create(["a"]) | beam.ParDo(Finalizing()) | beam.Reshuffle() | beam.Map(keep)

    plan = make_plan(build)
    run = Run(hosts(plan), order_of(plan))
    reply = run.all()
    assert isinstance(reply.end, SectionRefusal)
    assert "registered callbacks for the commit of its bundle" in reply.end.reason
    assert run.host.ends == [reply.end]
    assert found == []
