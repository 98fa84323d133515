"""Tests of running jobs: responses, rejections and ends."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import JobState, StateEvent
from waiting import wait_until

from beam_runner_jobservices import run_requests
from beam_runner_jobservices._protos import beam_job_api_pb2 as job_api
from beam_runner_jobservices.errors import ExecutorFailed, JobRejected, NotFound
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.preparations import ClientConnection, PreparationRegistry
from beam_runner_jobservices.recorder import InMemoryRecorder
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire.pipelines import decode_prepare_request

from .fakes import LIMIT, Clock, FakeExecutor, pipeline_proto, run_to_end


class Jobs:
    def __init__(self, folder, executor, limits=ServerLimits(ended_jobs=3)):  # noqa: B008
        self.store = ArtifactStore(folder)
        self.preparations = PreparationRegistry(self.store, limits, Clock())
        self.registry = JobRegistry(
            executor, self.store, self.preparations, InMemoryRecorder(), limits, Clock()
        )

    def prepare(self, name="job", **options):
        message = job_api.PrepareJobRequest(pipeline=pipeline_proto(), job_name=name)
        message.pipeline_options.update(options)
        return self.preparations.add_preparation(
            decode_prepare_request(message), ClientConnection.from_peer_name("ipv4:127.0.0.1:1")
        )

    def run(self, preparation):
        return self.registry.run_job(preparation.preparation_id, "localhost:1")


@pytest.fixture
def executor():
    return FakeExecutor()


@pytest.fixture
def jobs(tmp_path, executor):
    made = Jobs(tmp_path, executor)
    yield made
    made.store.close()


def messages(job):
    entries = job.history.follow_entries(lambda: False)
    return [entry.text for entry in entries if not isinstance(entry, StateEvent)]


def test_run_request_passes_all_arguments_to_executor(jobs, executor):
    preparation = jobs.prepare(**{"beam:option:job_name:v1": "Word Count!", "other": 1})
    job_id = jobs.run(preparation)
    (fake,) = executor.jobs
    assert fake.spec.job_id == job_id != preparation.preparation_id
    assert job_id.startswith("word-count-")
    assert fake.spec.job_name == "Word Count!"
    assert fake.spec.options["other"] == 1
    assert '"other"' in fake.spec.options_json
    assert fake.spec.pipeline == preparation.request.pipeline
    assert fake.spec.artifacts == {"python": ()}
    assert fake.spec.retrieval_endpoint == "localhost:1"
    assert jobs.registry.get_job(job_id).history.current.state is JobState.STARTING


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("go-job", {}, "go-job"), ("", {}, "job"), ("job", {"beam:option:job_name:v1": 3}, "job")],
)
def test_job_name_of_prepare_request_is_used_without_name_option(jobs, name, options, expected):
    assert jobs.registry.get_job(jobs.run(jobs.prepare(name, **options))).info.job_name == expected


def test_repeated_run_request_returns_same_job(jobs, executor):
    preparation = jobs.prepare()
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: jobs.run(preparation), range(50)))
    assert len(ids) == len(executor.jobs) == 1


def test_concurrent_run_request_waits_for_first_start(jobs, executor):
    starting, go_on = threading.Event(), threading.Event()

    def start(fake):
        starting.set()
        go_on.wait(LIMIT)

    executor.on_start = start
    preparation = jobs.prepare()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(jobs.run, preparation)
        starting.wait(LIMIT)
        second = pool.submit(jobs.run, preparation)
        go_on.set()
        assert first.result(LIMIT) == second.result(LIMIT)


@pytest.mark.parametrize("unsupported", [True, False])
def test_rejected_job_fails_and_reports_reason_to_all_callers(jobs, executor, unsupported):
    def reject(fake):
        raise JobRejected("transform 'A/B' uses state", unsupported=unsupported)

    executor.on_start = reject
    preparation = jobs.prepare()
    for _ in range(2):
        with pytest.raises(JobRejected, match="transform 'A/B' uses state") as raised:
            jobs.run(preparation)
        assert raised.value.unsupported is unsupported
    (job,) = jobs.registry.list_jobs()
    assert job.history.current.state is JobState.FAILED
    assert messages(job) == ["transform 'A/B' uses state"]


@pytest.mark.parametrize("error", [ValueError("two\nlines"), SystemExit("two\nlines")])
def test_failing_executor_fails_job(jobs, executor, error):
    def fail(fake):
        raise error

    executor.on_start = fail
    with pytest.raises(ExecutorFailed, match=f"{type(error).__name__}: two lines"):
        jobs.run(jobs.prepare())
    (job,) = jobs.registry.list_jobs()
    assert job.history.current.state is JobState.FAILED
    assert messages(job) == [f"Can't start the job: {type(error).__name__}: two lines"]


def test_artifacts_of_job_stay_until_job_ends(jobs, executor):
    preparation = jobs.prepare()
    stored = jobs.store.add_file("owner", b"content")
    jobs.preparations.set_staged_artifacts(preparation, "owner", {})
    jobs.run(preparation)
    assert stored.path.exists()
    run_to_end(executor.jobs[0])
    assert not stored.path.exists()


def test_job_ends_even_if_its_artifacts_cannot_be_removed(jobs, executor, monkeypatch):
    def fail(owner):
        raise PermissionError(owner)

    job_id = jobs.run(jobs.prepare())
    monkeypatch.setattr(jobs.store, "release_files", fail)
    run_to_end(executor.jobs[0])
    assert jobs.registry.get_job(job_id).history.current.state is JobState.DONE


def test_registry_retains_finished_jobs_up_to_number_limit(jobs, executor):
    running = jobs.run(jobs.prepare())
    executor.on_start = run_to_end
    preparations = [jobs.prepare() for _ in range(5)]
    ids = [jobs.run(preparation) for preparation in preparations]
    assert [job.info.job_id for job in jobs.registry.list_jobs()] == [running, *ids[2:]]
    assert jobs.run(preparations[4]) == ids[4]
    with pytest.raises(NotFound):
        jobs.run(preparations[0])
    with pytest.raises(NotFound, match=ids[0]):
        jobs.registry.get_job(ids[0])


def test_cancel_all_cancels_running_jobs_and_returns_jobs_that_continue(jobs, executor):
    executor.on_start = run_to_end
    jobs.run(jobs.prepare())
    executor.on_start = lambda fake: None
    jobs.run(jobs.prepare())
    stubborn = jobs.run(jobs.prepare())
    executor.job(stubborn).cancel = lambda: None
    assert jobs.registry.cancel_all(0.1) == (stubborn,)
    states = [job.history.current.state for job in jobs.registry.list_jobs()]
    assert states == [JobState.DONE, JobState.CANCELLED, JobState.CANCELLING]


def test_drain_all_drains_running_jobs(jobs, executor):
    executor.on_start = run_to_end
    jobs.run(jobs.prepare())
    executor.on_start = lambda fake: None
    running = jobs.run(jobs.prepare())
    assert jobs.registry.drain_all() == (running,)
    states = [job.history.current.state for job in jobs.registry.list_jobs()]
    assert states == [JobState.DONE, JobState.DRAINED]


def test_closed_registry_returns_jobs_that_were_run(jobs):
    ran, waiting = jobs.prepare(), jobs.prepare()
    job_id = jobs.run(ran)
    jobs.registry.refuse_new_jobs()
    assert jobs.run(ran) == job_id
    with pytest.raises(Unavailable):
        jobs.run(waiting)


def test_finished_job_leaves_only_list_entry_in_memory(jobs, executor):
    executor.on_start = run_to_end
    job_id = jobs.run(jobs.prepare())
    job, fake = jobs.registry.get_job(job_id), weakref.ref(executor.jobs.pop())
    assert isinstance(job, FinishedJob)
    assert job.info.state is JobState.DONE
    assert type(pipeline_proto()).FromString(job.get_pipeline()) == pipeline_proto()
    assert [entry.state for entry in job.history.list_entries()][-1] is JobState.DONE
    assert job.cancel() is job.drain() is JobState.DONE
    gc.collect()
    assert fake() is None


def test_options_of_finished_jobs_are_compressed(tmp_path, executor):
    jobs = Jobs(tmp_path, executor, ServerLimits(ended_jobs=50))
    tracemalloc.start()
    for _ in range(50):
        jobs.run(jobs.prepare(large="x" * 100_000))
        run_to_end(executor.jobs.pop())
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 50 * 20_000
    ended = jobs.registry.list_jobs()
    assert len(ended) == 50
    assert {job.info.options["large"] for job in ended} == {"x" * 100_000}
    jobs.store.close()


def test_refused_job_is_garbage_collected(jobs, executor):
    def reject(fake):
        raise JobRejected("no")

    executor.on_start = reject
    preparation = jobs.prepare()
    with pytest.raises(JobRejected):
        jobs.run(preparation)
    gone = weakref.ref(preparation)
    preparation_id = preparation.preparation_id
    del preparation
    executor.jobs.clear()
    gc.collect()
    assert gone() is None
    for _ in range(3):
        with pytest.raises(JobRejected) as refused:
            jobs.registry.run_job(preparation_id, "localhost:1")
        assert len(refused.traceback) < 5


def test_registry_retains_finished_jobs_up_to_size_limit(tmp_path, executor):
    jobs = Jobs(tmp_path, executor, ServerLimits(ended_bytes_in_memory=3_000))
    executor.on_start = run_to_end
    ids = [jobs.run(jobs.prepare()) for _ in range(30)]
    left = [job.info.job_id for job in jobs.registry.list_jobs()]
    assert 1 < len(left) < 20
    assert left == ids[-len(left) :]
    with pytest.raises(NotFound):
        jobs.registry.get_job(ids[0])
    jobs.store.close()


def raise_rejection(reason):
    raise JobRejected(reason)


class AbsentStateStore(InMemoryRecorder):
    """Recorder whose store is unavailable between the job's record and the job's first state."""

    def __init__(self):
        super().__init__()
        self.returned = threading.Event()

    def add_state(self, job_id, event):
        assert self.returned.wait(LIMIT)


@pytest.mark.parametrize("is_refused", [False, True])
def test_run_of_recorded_job_is_answered_while_its_store_is_unavailable(
    jobs, executor, monkeypatch, is_refused
):
    monkeypatch.setattr(run_requests, "_ANSWER_SECONDS", 0.05)
    store = AbsentStateStore()
    registry = JobRegistry(executor, jobs.store, jobs.preparations, store, ServerLimits(), Clock())
    executor.on_start = lambda fake: is_refused and raise_rejection("no")
    job_id = registry.run_job(jobs.prepare().preparation_id, "localhost:1")
    job = registry.get_job(job_id)
    assert job.current.state is JobState.STOPPED
    assert not executor.jobs
    store.returned.set()
    expected = JobState.FAILED if is_refused else JobState.STARTING
    wait_until(lambda: executor.jobs and job.current.state is expected)


def test_registry_removes_old_finished_jobs_with_their_archives(jobs, executor):
    clock = Clock()
    recorder = InMemoryRecorder()
    registry = JobRegistry(
        executor, jobs.store, jobs.preparations, recorder, ServerLimits(ended_seconds=60.0), clock
    )
    executor.on_start = run_to_end
    job_id = registry.run_job(jobs.prepare().preparation_id, "localhost:1")
    clock.now += 59
    registry.remove_excess_jobs()
    assert [job.info.job_id for job in registry.list_jobs()] == [job_id]
    clock.now += 2
    registry.remove_excess_jobs()
    assert registry.list_jobs() == ()
    with pytest.raises(NotFound):
        recorder.read_archive(job_id)
