"""Runs random pipelines as one stream that random updates cut, and compares the outputs with the model."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobServicesError
from beam_runner_model.jobs import JobMessage, JobState
from beam_runner_model.successions import RollbackRequest
from crash_points import Points
from judging import Tally, judge
from lives import Lives
from random_edits import (
    Change,
    Version,
    build_version,
    choose_change,
    choose_first,
    list_places,
)
from runners import Refused, Server, built_by
from spec import Spec, Step
from stream_jobs import Outcome
from tapping import attempted, committed
from update_points import POINTS
from waiting import wait_until

MOST_UPDATES = 5
_JOB_SECONDS = 240.0
_FLAGS = {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"]}
_REFUSED = "refused update"
_ROLLBACK = "rollback"
_SAVEPOINT = "savepoint of a cancelled job"


@attrs.define
class UpdateTally(Tally):
    """Results of updated pipelines.

    Attributes:
        kinds: number of updates of one pipeline, by kind.
        updates: number of pipelines, by the number of their updates.
    """

    kinds: Counter[str] = attrs.field(factory=Counter)
    updates: Counter[int] = attrs.field(factory=Counter)


@attrs.frozen
class Kills:
    """Kills of a server at the points of an update."""

    running: Lives
    points: Points

    def replace(self, name: str, point: str, submit: Callable[[], object]) -> str:
        """Submits an update, kills the server at a point, and starts the next server.

        Returns:
            The ID of the new job.
        """
        with JobClient(self.running.address) as client:
            known = {job.job_id for job in client.list_jobs()}
        self.points.clear(point)
        self.points.set(point)
        with contextlib.suppress(Exception):  # The server can be killed during the client's calls.
            submit()
        wait_until(lambda: self.points.is_hit(point), 60, f"the server is killed {point}")
        self.running.wait_until_gone()
        self.running.go_on()
        with JobClient(self.running.address) as client:
            found = [job.job_id for job in client.list_jobs() if job.job_name == name]
        (new,) = set(found) - known
        return new


@attrs.define
class _Chain:
    """Jobs of one stream, each of which replaced the job before it.

    Attributes:
        address: address of the server.
        specs: pipelines by name.
        folder: folder of the outputs.
        version: version of the running job.
        name: name of all jobs.
        results: Beam's results of all submitted jobs.
        job_id: the running job.
        kinds: kinds of the changes so far.
        kills: kills of the server; None without kills.
        before: version to which a rollback returns; None if the server can't roll back.
    """

    address: str
    specs: Mapping[str, Spec]
    folder: Path
    version: Version
    name: str
    results: list[Any] = attrs.field(factory=list)
    job_id: str = ""
    kinds: list[str] = attrs.field(factory=list)
    kills: Kills | None = None
    before: Version | None = None

    def submit(self, version: Version, *flags: str) -> str:
        """Submits a version, and returns the job's ID."""
        folder = str(self.folder)
        with built_by(lambda root, _: build_version(root, self.specs, folder, version)) as made:
            server = Server(self.address, _FLAGS[version.environment])
            fixed = (
                "--streaming",
                f"--job_name={self.name}",
                f"--beam_spark_key_shards={version.shards}",
                "--allow_unsafe_triggers",
                "--beam_spark_task_attempts=3",
            )
            self.results.append(server.submit(made, *fixed, *flags))
        return str(self.results[-1]._job_id)

    def begin(self) -> None:
        """Starts the first job."""
        self.job_id = self.submit(self.version)
        self._wait_until_it_runs(self.job_id)

    def update(self, change: Change, point: str, *flags: str) -> None:
        """Replaces the running job.

        Args:
            change: change of the program.
            point: point at which the server is killed; empty without a kill.
            flags: further options.
        """
        flags = ("--update", f"--beam_spark_update_job={self.job_id}", *change.flags, *flags)
        if point:
            assert self.kills is not None
            new = self.kills.replace(self.name, point, lambda: self.submit(change.version, *flags))
        else:
            new = self.submit(change.version, *flags)
        self._wait_until_it_runs(new)
        # The harness of a LOOPBACK program ends after the update.
        self.before = self.version if self.version.environment == "embedded" else None
        self.job_id, self.version = new, change.version

    def roll_back(self) -> None:
        """Returns to the program before the latest update."""
        assert self.before is not None
        request = RollbackRequest(drop=("all",))
        with JobClient(self.address) as client:
            self.job_id = client.roll_back(self.job_id, request)
        self._wait_until_it_runs(self.job_id)
        self.version = attrs.evolve(self.before, shards=self.version.shards)
        self.before = None

    def move_to_savepoint(self, url: str) -> None:
        """Cancels the job, and continues the stream from a savepoint."""
        with JobClient(self.address) as client:
            client.cancel_job(self.job_id)
            client.wait_until_finish(self.job_id, _JOB_SECONDS)
            client.make_savepoint(self.job_id, url)
        self.job_id = self.submit(self.version, f"--beam_spark_from_savepoint={url}")
        self._wait_until_it_runs(self.job_id)
        self.before = None

    def refuse(self) -> None:
        """Submits an update that the server must refuse."""
        flags = ("--update", f"--beam_spark_update_job={self.job_id}")
        new = self.submit(self.version, *flags, '--transform_name_mapping={"nobody": "somebody"}')
        with JobClient(self.address) as client:
            if client.wait_until_finish(new, _JOB_SECONDS) is not JobState.FAILED:
                raise Refused("an update with a wrong mapping isn't refused")
            if client.get_state(self.job_id).state is not JobState.RUNNING:
                raise Refused("a refused update ended the running job")

    def _wait_until_it_runs(self, job_id: str) -> None:
        with JobClient(self.address) as client:
            for event in client.follow_states(job_id, _JOB_SECONDS):
                if event.state is JobState.RUNNING:
                    return
                if event.state.is_terminal:
                    texts = _read_messages(client, job_id)
                    raise Refused(f"{job_id} is {event.state.name}: {texts}")

    def wait(self) -> None:
        """Waits until the last job is done."""
        with JobClient(self.address) as client:
            state = client.wait_until_finish(self.job_id, _JOB_SECONDS)
            if state is not JobState.DONE:
                raise Refused(f"the job is {state.name}: {_read_messages(client, self.job_id)}")

    def describe_jobs(self) -> str:
        """Returns the states and errors of all jobs."""
        with JobClient(self.address) as client:
            states = {
                job.job_id: job.state.name
                for job in client.list_jobs()
                if job.job_name == self.name
            }
            errors = {one.job_id: one.error for one in client.get_job_times()}
        return "; ".join(f"{job_id} {state} {errors[job_id]}" for job_id, state in states.items())

    def close(self) -> None:
        """Ends the jobs of a failed chain, and the threads of Beam's client."""
        with JobClient(self.address) as client:
            for job in client.list_jobs():
                if job.job_name == self.name and not job.state.is_terminal:
                    client.cancel_job(job.job_id)
        for result in self.results:
            with contextlib.suppress(Exception):
                result._cleanup()


def _read_messages(client: JobClient, job_id: str) -> str:
    entries = client.follow_messages(job_id, _JOB_SECONDS)
    return " ".join(one.text for one in entries if isinstance(one, JobMessage))[-3000:]


def add_waits(spec: Spec, rng: random.Random, folder: Path, count: int) -> Spec:
    """Returns a pipeline whose partitions wait for files at random places."""

    def cut(step: Step) -> Step:
        if step.op != "source":
            return step
        partitions = []
        for slack, actions in step.args["partitions"]:
            places = sorted(rng.randint(0, len(actions)) for _ in range(count))
            parts = list(actions)
            for number in reversed(range(count)):
                parts.insert(places[number], ("wait", str(folder / f"open-{number}")))
            partitions.append((slack, tuple(parts)))
        return attrs.evolve(step, args={"partitions": tuple(partitions)})

    return Spec(tuple(map(cut, spec.steps)))


@attrs.frozen
class Run:
    """Run of pipelines as one stream.

    Attributes:
        address: address of the server.
        environment: environment of the first job.
        seed: seed of the updates.
        folder: empty folder of outputs and signals.
        kills: kills of the server during updates; None without kills.
    """

    address: str
    environment: str
    seed: str
    folder: Path
    kills: Kills | None = None


def compare_with_updates(run: Run, specs: Mapping[str, Spec]) -> UpdateTally:
    """Runs pipelines with 0 to 5 updates, and compares their outputs with the model."""
    rng = random.Random(run.seed)
    count = rng.randint(0 if run.kills is None else 1, MOST_UPDATES)
    outputs = run.folder / "outputs"
    outputs.mkdir()
    waiting = {name: add_waits(spec, rng, run.folder, count + 1) for name, spec in specs.items()}
    places = list_places(waiting)
    first = choose_first(rng, places, run.environment)
    chain = _Chain(run.address, waiting, outputs, first, f"random-{run.seed}", kills=run.kills)
    tally = UpdateTally()
    try:
        _update_at_random(chain, rng, count, run.folder, places)
    except (Refused, JobServicesError, AssertionError) as error:
        texts = (f"seed {run.seed}", str(chain.kinds), str(error), chain.describe_jobs())
        tally.differences.append(": ".join(texts))
        return tally
    finally:
        chain.close()
    tally.updates[count] += len(specs)
    tally.kinds.update(chain.kinds)
    outcome = Outcome(committed(outputs), attempted(outputs), 0, False)
    for name, spec in specs.items():
        told = "\n".join(judge(name, spec, outcome, False, tally))
        if told:
            tally.differences.append(f"seed {run.seed}, {name}: {chain.kinds}: {told}\n{spec}")
        else:
            tally.same[run.environment] += 1
    return tally


def _update_at_random(
    chain: _Chain,
    rng: random.Random,
    count: int,
    folder: Path,
    places: Mapping[str, Sequence[str]],
) -> None:
    chain.begin()
    for number in range(count):
        # Elements flow during most updates; all sources wait during others.
        (folder / f"open-{number}").touch()
        time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.5), rng.uniform(0.0, 2.0)]))
        _replace(chain, rng, folder / f"savepoint-{number}", places)
    (folder / f"open-{count}").touch()
    chain.wait()


def _replace(
    chain: _Chain, rng: random.Random, savepoint: Path, places: Mapping[str, Sequence[str]]
) -> None:
    chosen = rng.random()
    if chosen < 0.05:
        chain.kinds += [_REFUSED] * len(places)
        chain.refuse()
    elif chosen < 0.12:
        chain.kinds += [_SAVEPOINT] * len(places)
        chain.move_to_savepoint(str(savepoint))
    elif chosen < 0.25 and chain.before is not None:
        chain.kinds += [_ROLLBACK] * len(places)
        chain.roll_back()
    else:
        change = choose_change(rng, places, chain.version, can_move=chain.kills is None)
        point = rng.choice(POINTS) if chain.kills is not None else ""
        chain.kinds += [*change.kinds, *[f"killed {point}"] * bool(point)]
        # Elements that wait for a Reshuffle that is removed must be processed first.
        is_at_once = rng.random() < 0.2 and not any("reshuffle" in kind for kind in change.kinds)
        chain.update(change, point, *["--beam_spark_update_quiet=0s"] * is_at_once)
