from __future__ import annotations

import re
import threading
import time
from typing import Any

import attrs
import pytest
from beam_runner_jobservices.figures.step_metrics import compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import MAX_TIMESTAMP
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import Importance, JobInfo, JobMetrics, JobState, MetricCell, StateEvent
from beam_runner_model.observation import BundleProcessKind, Execution, StackFrame, ThreadStack
from beam_runner_model.rendering import render_record
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient
from waiting import eventually

from beam_runner_web.causes.causes import find_causes
from beam_runner_web.causes.facts import CauseSeverity, JobFacts
from beam_runner_web.watch.snapshots import JobSnapshot, MetricSample
from beam_runner_web.watch.stalled_stacks import StalledStacks, find_bundle_thread
from beam_runner_web.watch.threads import WorkerThread

from ..conftest import (
    Observed,
    Server,
    all_causes,
    bundle,
    causes,
    count,
    kinds,
    stage,
    varint,
    waits,
    wall,
    word_count,
)

LIBRARY = StackFrame("/usr/lib/python3.11/threading.py", 3, "run", "")
HARNESS = StackFrame("/v/site-packages/apache_beam/runners/worker/sdk_worker.py", 9, "work", "")
ASK = StackFrame("/home/me/words.py", 31, "ask", "time.sleep(20)")
GENERATED = StackFrame("<attrs generated methods words.Word>", 50, "__init__", "")
MAIN = StackFrame("/home/me/words.py", 90, "main", "run(pipeline)")


@pytest.fixture
def job(server: Server) -> Any:
    server.kind = Observed
    return server.submit()


def test_cause_of_stuck_bundle_names_source_line(web: TestClient, job: Any) -> None:
    job.runs = Execution((bundle(7, 23.0, 21.5),), waits=(waits("w", "Write", "Count"),))
    job.threads = (ThreadStack("node", 47, "lane", (LIBRARY, ASK)),)
    wanted = (
        "Count has processed one bundle for 23 s, without any progress, at words.py:31 in ask"
        " (process 47 on node): time.sleep(20)"
    )
    assert eventually(lambda: wanted in [text for _, text in causes(web, job)])
    # Steps that block other steps come before the waiting steps.
    assert [text.partition(" ")[0] for _, text in causes(web, job)][:2] == ["Count", "Write"]


def test_progressing_bundle_causes_no_warning(web: TestClient, job: Any) -> None:
    job.runs = Execution((bundle(7, 24.0, 0.1), bundle(8, 12.0, 0.2), bundle(9, 1.0, 0.0)))
    found = causes(web, job)
    assert found[0][0].lower() == "good"
    assert "Count processes 2 bundles, for up to 24 s" in found[1][1]


def test_cause_for_stage_without_step_times_names_no_step(web: TestClient, job: Any) -> None:
    inside = ("Read/Open", "Read/Lines", "Count", "Write")
    one = attrs.evolve(bundle(7, 23.0, 21.5), steps=inside)
    job.runs = Execution((one,))
    assert eventually(
        lambda: causes(web, job)[0][1].startswith("Read, Count or Write has processed")
    )
    # What a process told before it fell silent is not of this bundle's.
    job.given = JobMetrics((wall("Count", 5_000),))
    assert eventually(lambda: causes(web, job)[0][1].startswith("Count has processed one bundle"))
    silent = Wait(WaitKind.PROCESS, "s", inside, host="node", pid=47, seconds=20.0)
    runs = Wait(WaitKind.BUNDLES, "s", ("Count",), count=1)
    job.runs = Execution((attrs.evolve(one, silent=20.0),), waits=(silent, runs), still=20.0)
    wanted = render_record(silent, who="Read, Count or Write")
    assert eventually(lambda: causes(web, job)[0][1] == wanted)
    assert kinds(web, job) == [WaitKind.PROCESS]
    assert "py-spy dump --pid 47 on node" in web.get(f"/jobs/{job.id}").text


@pytest.mark.parametrize(("waiting", "weight"), [(12, "NOTE"), (393_000, "WARN")])
def test_wait_for_side_input_is_severe_only_with_much_waiting_input(
    web: TestClient, job: Any, waiting: int, weight: str
) -> None:
    job.runs = Execution(waits=(waits("w", "Write", "Count"),))
    job.given = JobMetrics((stage("w", "Write", "backlog_bytes", waiting),))
    (told,) = (one for one in all_causes(web, job) if one["kind"] == WaitKind.SIDE_INPUT)
    assert (told["weight"], told["step"]) == (weight, "t4")
    assert told["text"].startswith("Write waits for its side input")
    assert "from Count" in told["text"]


def test_cause_names_waiting_step_of_wait_record(web: TestClient, job: Any) -> None:
    job.runs = Execution(waits=(waits("s", "Count", "Read"),))
    job.given = JobMetrics((stage("s", "Count + Write", "backlog_bytes", 9_999),))
    (told,) = all_causes(web, job)
    assert (told["kind"], told["step"]) == (WaitKind.SIDE_INPUT, "t3")


def test_causes_omit_waits_between_parts_of_one_composite(web: TestClient, job: Any) -> None:
    job.runs = Execution(waits=(waits("w", "Read/Lines", "Read/Open"),), still=9.0)
    job.given = JobMetrics((stage("w", "Read/Lines", "backlog_bytes", 12),))
    assert [weight for weight, _ in causes(web, job)] == ["GOOD"]


def test_failed_attempts_with_error_are_reported_only_as_error(web: TestClient, job: Any) -> None:
    error = "ConnectionError: hung up [while running 'Count']"
    failed = FailedBundle(
        "s", 1, attempts=1, kind="user_code", step="Count", error="ConnectionError: hung up"
    )
    job.reporter.report_message(Importance.WARNING, f"tried again: {error}", record=failed)
    job.given = JobMetrics((stage("s", "Count", "bundles_retried", 1),))
    (said,) = [text for weight, text in causes(web, job) if weight != "GOOD"]
    assert said == (
        "An error occurred once, and the server retried the failed work, in Count: ConnectionError: hung up"
    )
    job.reporter.report_state(JobState.FAILED, error)
    wanted = "The job failed after 2 attempts in Count: ConnectionError: hung up"
    assert eventually(lambda: [text for _, text in causes(web, job)] == [wanted])


def test_cause_for_healthy_job_describes_its_work(
    server: Server, web: TestClient, job: Any
) -> None:
    done = MAX_TIMESTAMP
    running = (
        stage("r", "Read/Lines", "output_watermark", done),
        stage("s", "Count", "open_bundles", 2),
        stage("w", "Write", "open_bundles", 0),
    )
    job.given = JobMetrics(running)
    assert causes(web, job)[0] == ("GOOD", "No problems: Count at work, 1 of 3 stages done.")


def test_slow_stage_of_stream_is_reported_as_not_keeping_up(
    server: Server, web: TestClient
) -> None:
    late = int(time.time() * 1000) - 340_000
    job = server.submit(streaming=True)
    job.given = JobMetrics(
        (
            stage("s", "Count", "input_watermark", late),
            stage("s", "Count", "output_watermark", late),
            stage("s", "Count", "open_bundles", 8),
            stage("s", "Count", "commit_lag", 305_000),
        )
    )
    found = causes(web, job)
    assert any(
        weight.lower() == "warn"
        and text.startswith("Count doesn't keep up: its output is 5 min 4")
        and text.endswith("and its oldest bundle has run for 5 min 5 s (8 are not done)")
        for weight, text in found
    ), found


def test_causes_quote_last_warning_of_job(web: TestClient, job: Any) -> None:
    job.reporter.report_message(Importance.WARNING, "the exchange is slow\nreally", "Count")
    job.reporter.report_message(Importance.WARNING, "the exchange does not answer", "Count")
    found = [text for _, text in causes(web, job)]
    assert "2 warnings, the last of Count: the exchange does not answer" in found


def test_backlog_is_reported_only_for_first_step_of_stage(web: TestClient, job: Any) -> None:
    job.given = JobMetrics((count("lines", 5), wall("Count", 5), *_fused("backlog_bytes", 393_000)))
    page = web.get(f"/jobs/{job.id}").text
    assert page.count("393 KB waiting") == 1
    # The event time of a batch job is irrelevant to users.
    assert "Watermark" not in page


def _fused(field: str, value: int) -> tuple[Any, ...]:
    return (stage("s", "Count + Write", field, value),)


@pytest.mark.parametrize("sdk", ["", "python"])
def test_cause_shows_stack_only_if_thread_is_unambiguous(sdk: str) -> None:
    here = bundle(1, 20.0, 20.0, BundleProcessKind.HARNESS)
    pid = 0 if sdk else 47
    at_work = ThreadStack("node", pid, "a", (LIBRARY, HARNESS, ASK), sdk)
    elsewhere = ThreadStack("node", pid, "b", (LIBRARY, HARNESS, MAIN), sdk)
    found = find_bundle_thread(here, [WorkerThread.from_stack(at_work)])
    assert found is not None and found.user_frames[0].place == "words.py:31 in ask"
    assert (
        find_bundle_thread(
            here, [WorkerThread.from_stack(at_work), WorkerThread.from_stack(elsewhere)]
        )
        is None
    )
    assert find_bundle_thread(here, []) is None


def test_thread_without_bundle_is_not_shown_as_user_code() -> None:
    main = WorkerThread.from_stack(ThreadStack("node", 47, "MainThread", (MAIN, LIBRARY), "python"))
    at_work = WorkerThread.from_stack(
        ThreadStack("node", 47, "t", (MAIN, HARNESS, ASK, GENERATED), "python")
    )
    assert not main.runs_user_code
    assert [frame.function for frame in at_work.user_frames] == ["ask"]


def test_closed_client_raises_no_error_in_stack_thread(
    server: Server, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    thrown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", thrown.append)
    server.client.close()
    standing = StalledStacks(server.client, job.id)
    assert standing.find_user_threads(Execution((bundle(7, 23.0, 21.5),))) == ()
    assert eventually(lambda: not any(t.name == "beam-web-stacks" for t in threading.enumerate()))
    assert thrown == []


def bundle_msecs(count: int, total: int) -> MetricCell:
    payload = b"".join(map(varint, (count, total, 1, 400)))
    labels = {"STAGE": "s", "PTRANSFORM": "Count"}
    urn = "beam_spark:stage:bundle_msecs:v1"
    return MetricCell(urn, "beam:metrics:distribution_int64:v1", payload, labels)


def test_cause_of_slow_grouping_bundle_suggests_large_key(server: Server, web: TestClient) -> None:
    server.kind = Observed
    pipeline = word_count()
    group = pipeline.components.transforms["t2"]
    pipeline.components.transforms["t0"].spec.urn = "beam:transform:composite:v1"
    for urn, told in (("beam:transform:group_by_key:v1", True), ("beam:transform:pardo:v1", False)):
        group.spec.urn = urn
        job = server.submit(pipeline)
        job.runs = Execution((bundle(7, 40.0, 0.1),))
        job.given = JobMetrics((stage("s", "Count", "open_bundles", 1), bundle_msecs(20, 2_000)))
        found = [text for weight, text in causes(web, job) if weight == "WARN"]
        assert found[0].startswith("Count has processed one bundle for 40 s; a bundle takes 0.1 s")
        assert ("a hot key, with far more values" in found[0]) == told
        # One group is one element: its bundle comes no further while it is processed.
        job = server.submit(pipeline)
        job.runs = Execution((bundle(7, 40.0, 40.0),))
        job.given = JobMetrics((stage("s", "Count", "open_bundles", 1), bundle_msecs(20, 2_000)))
        found = [text for weight, text in causes(web, job) if weight == "WARN"]
        assert found[0].startswith("Count has processed one bundle for 40 s, without any")
        assert found[0].endswith("is a possible cause") == told


@pytest.mark.parametrize(
    ("elements", "wall_msecs", "told"),
    [
        (600, 2_500, True),
        # These bundles have many elements, or spend their time in user code.
        (60_000, 2_500, False),
        (600, 9_000, False),
    ],
)
def test_very_small_bundles_are_reported(
    server: Server,
    web: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    elements: int,
    wall_msecs: int,
    told: bool,
) -> None:
    monkeypatch.setattr(JobSnapshot, "seconds", property(lambda snapshot: 20.0))
    job = server.submit()
    # As in a stage with a source: one element reaches the first step of the stage.
    job.given = JobMetrics(
        (
            stage("s", "Read/Lines + Count", "bundles_committed", 500),
            bundle_msecs(500, 10_000),
            count("files", 1),
            count("lines", elements),
            wall("Count", wall_msecs),
        )
    )
    found = [text for weight, text in causes(web, job) if weight == "WARN"]
    wanted = [
        "Count has very small bundles: 1.2 elements in each, 500 bundles so far; their start and commit took 75 % of their time"
    ]
    assert found == (wanted if told else [])


@pytest.mark.parametrize(
    ("seconds", "waits_for", "told"), [(5, 0, False), (40, 0, True), (40, 9, False)]
)
def test_stream_with_sources_without_elements_is_described_as_idle(
    seconds: int, waits_for: int, told: bool
) -> None:
    tree = StepTree(describe_pipeline(word_count().SerializeToString()))
    given = (count("lines", 5), stage("s", "Count", "backlog_bytes", waits_for))
    before = compute_figures(JobMetrics((count("lines", 4), given[1])), tree)
    figures = compute_figures(JobMetrics(given), tree)
    samples = (
        MetricSample(900.0, before),
        MetricSample(1_000.0 - seconds, figures),
        MetricSample(1_000.0, figures),
    )
    running = JobInfo("words", "words", JobState.RUNNING)
    snapshot = JobSnapshot(running, tree, (), (), figures, samples, 1_000.0)
    (found,) = find_causes(JobFacts(snapshot, (), {}))
    assert found.weight is CauseSeverity.GOOD
    assert found.text.startswith("No input has arrived for 40 s" if told else "No problems")


def test_wait_for_slot_is_reported_with_reason(web: TestClient, job: Any) -> None:
    slot = Wait(WaitKind.SLOT, count=3)
    job.runs = Execution(waits=(slot,), interface="http://spark:4040")
    (told,) = all_causes(web, job)
    assert told["kind"] == WaitKind.SLOT
    assert told["text"].endswith(": 3")
    assert told["more"].endswith("no executor has started yet: see http://spark:4040")


def test_running_code_page_links_to_spark_web_pages(web: TestClient, job: Any) -> None:
    job.runs = Execution(interface="http://spark:4040")
    address = f"/jobs/{job.id}/now"
    assert eventually(lambda: "http://spark:4040" in web.get(address).text)
    page = web.get(address).text
    assert re.findall(r'href="(http://spark:4040[^"]*)"', page) == [
        "http://spark:4040/jobs/",
        "http://spark:4040/executors/",
    ]
    assert f"contains the id {job.id}" in page
    job.runs = Execution(interface="javascript:alert(1)")
    assert eventually(lambda: "spark:4040" not in web.get(address).text)
    assert "javascript:" not in web.get(address).text


@pytest.mark.parametrize(
    ("where", "urn", "opened", "text"),
    [
        (BundleProcessKind.PROCESS, "beam:env:docker:v1", 1, "Count has 1 bundle"),
        (BundleProcessKind.HARNESS, "beam:env:external:v1", 1, "one process of the SDK"),
        (BundleProcessKind.PROCESS, "beam:env:docker:v1", 9, None),
    ],
)
def test_idle_slots_are_explained(
    where: BundleProcessKind, urn: str, opened: int, text: str | None
) -> None:
    pipeline = word_count()
    pipeline.components.environments["python"].urn = urn
    tree = StepTree(describe_pipeline(pipeline.SerializeToString()))
    given = (stage("s", "Count", "open_bundles", opened), stage("s", "Count", "began", 1_030_000))
    figures = compute_figures(JobMetrics(given), tree)
    runs = Execution((bundle(7, 2.0, 0.0, where),), slots=12, busy_slots=1)
    began = (StateEvent(JobState.RUNNING, 1_000.0),)
    job = JobInfo("words", "words", JobState.RUNNING)
    snapshot = JobSnapshot(
        job, tree, began, (), figures, (MetricSample(1_060.0, figures),), 1_060.0, runs
    )
    found = [
        one.text for one in find_causes(JobFacts(snapshot, (), {})) if one.kind == "idle_slots"
    ]
    assert len(found) == (text is not None)
    assert all(one.startswith(f"Only 1 slot works of 12: {text}") for one in found)
    busy = attrs.evolve(snapshot, execution=attrs.evolve(runs, busy_slots=7))
    assert not any(one.kind == "idle_slots" for one in find_causes(JobFacts(busy, (), {})))
