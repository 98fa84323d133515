"""Test of three steady streams and a batch job each minute under repeated kills: exact results and no memory growth.

In the first half nothing dies, so that the server lives long enough to be seen growing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from beam_runner_model.jobs import JobState
from chaos import strike
from crash_points import check, submit
from gauges import Arrival, Sample, Trend, arrivals, line, look, trend
from jobs import Job, Pipelines
from lives import Lives, lives
from steady import WINDOW, Stream, steady
from victims import bounded

STREAMS = 3
SAMPLE_SECONDS = 5
BATCH_SECONDS = 60
NUMBERS_OF_A_BATCH = 300
WARM_SECONDS = 600
"""At first everything grows; of a soak of less than 40 minutes that is a quarter."""
KINDS = ("worker", "worker", "worker", "java", "server")
START_SECONDS = 15
END_SECONDS = 30
"""Before the end nothing is killed any more."""
MEGABYTES = {"server": 20.0, "files": 50.0}
"""Allowed growth of a warm server, megabytes."""

PipelinesOf = Callable[[Lives, str], Pipelines]


@attrs.frozen
class Steady:
    """A stream that runs."""

    stream: Stream
    job: Job

    def finish(self) -> None:
        """Waits for the expected terminal state."""
        assert self.job.wait(240) is JobState.DONE, [m.text for m in self.job.messages()][-3:]
        told = {name: self.job.counter(name) for name in self.stream.results}
        print(f"RESULTS {told}", flush=True)
        assert told == self.stream.results


class Soak:
    """Streams with kills and concurrent batches, and the observations of both."""

    def __init__(
        self, lives: Lives, state: Path, pipelines: Pipelines, seed: int, every: int
    ) -> None:
        self._every = every
        self._lives = lives
        self._pipelines = pipelines
        self._state = state
        self._random = random.Random(seed)
        self.streams: list[Steady] = []
        self.batches: list[Job] = []
        self.samples: list[Sample] = []

    def begin(self, start: int, rate: int, seconds: int, folder: Path) -> None:
        """Submits the streams."""
        for number in range(STREAMS):
            stream = Stream(start, rate, seconds, folder / f"latencies{number}")
            pipeline = self._pipelines.new("--streaming")
            steady(pipeline, stream)
            self.streams.append(Steady(stream, self._pipelines.job(pipeline)))

    def run(self, folder: Path) -> None:
        """Runs until all numbers are due."""
        first = self.streams[0].stream
        end, half = first.start + first.seconds, first.start + first.seconds / 2
        kill_at, batch_at = half, float(first.start)
        while (now := time.time()) < end:
            self.samples.append(look(self._lives, self._state))
            print(f"SAMPLE {line(self.samples[-1])}", flush=True)
            if any(one.job.state().is_terminal for one in self.streams):
                return
            if now >= batch_at:
                stop = folder / "never"
                self.batches.append(submit(self._pipelines, bounded, NUMBERS_OF_A_BATCH, stop))
                batch_at += BATCH_SECONDS
            if kill_at <= now < end - END_SECONDS and self._kill():
                kill_at = max(kill_at + self._every, time.time() + SAMPLE_SECONDS)
            time.sleep(SAMPLE_SECONDS)

    def _kill(self) -> bool:
        """Returns True if a process was killed. Otherwise the next call tries again."""
        kind = self._random.choice(KINDS)
        found = strike(self._lives, kind, self._random.randrange(100))
        if found:
            print(f"KILL {kind} at {time.time():.0f}", flush=True)
        return found

    def arrived(self) -> list[Arrival]:
        """Returns the arrivals that all streams reported."""
        return [one for each in self.streams for one in arrivals(each.stream.latencies)]


def trends(samples: list[Sample], arrived: list[Arrival]) -> list[tuple[Trend, float, float]]:
    """Figures that must not grow while nothing is killed, each with the factor and the number that are noise."""
    begin, end = samples[0].at, samples[-1].at
    since = begin + min(WARM_SECONDS, (end - begin) / 2)
    warm = [one for one in samples if one.at >= since]

    def of(name: str, value: Callable[[Sample], float]) -> Trend:
        return trend(name, [(sample.at, value(sample)) for sample in warm])

    def late(kind: str) -> Trend:
        seen = sorted((a.at, a.late) for a in arrived if a.kind == kind and since <= a.at <= end)
        return trend(f"seconds that a {kind} is late, p90", seen, 0.9)

    return [
        (of("files", lambda s: s.files), 1.2, 20),
        (of("MB of files", lambda s: s.file_megabytes), 1.0, MEGABYTES["files"]),
        (of("MB of server", lambda s: s.megabytes.get("server", 0.0)), 1.0, MEGABYTES["server"]),
        *(
            (of(f"MB of {kind}", lambda s, k=kind: s.megabytes.get(k, 0.0)), 1.1, 20)
            for kind in ("java", "python")
        ),
        (of("threads", lambda s: s.threads), 1.1, 10),
        (of("descriptors", lambda s: s.descriptors), 1.1, 20),
        *(
            (late(kind), 1.5, slack)
            for kind, slack in (("number", 0.3), ("window", 0.5))
            if arrived
        ),
    ]


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_streams_and_batches_under_repeated_kills_give_exact_results(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, request: pytest.FixtureRequest
) -> None:
    minutes = request.config.getoption("--minutes")
    rate = request.config.getoption("--rate")
    seed = request.config.getoption("--seed")
    every = request.config.getoption("--every")
    state = tmp_path / "state"
    with lives(temporary, state) as running:
        soak = Soak(running, state, pipelines_of(running, "embedded"), seed, every)
        start = (int(time.time() + START_SECONDS) // WINDOW + 1) * WINDOW
        soak.begin(start, rate, minutes * 60, tmp_path)
        soak.run(tmp_path)
        for one in soak.streams:
            one.finish()
        for job in soak.batches:
            check(job, NUMBERS_OF_A_BATCH)
        quiet = [one for one in soak.samples if one.at < start + minutes * 30]
        found = trends(quiet, soak.arrived())
        for figure, factor, slack in found:
            mark = "GROWS" if figure.grows(factor, slack) else "flat"
            print(f"TREND {figure.name}: {figure.first} -> {figure.last} {mark}", flush=True)
        print(f"{len(soak.batches)} batches; {dict(running.kills)} killed, served again", end=" ")
        print(f"after {running.slowest:.1f} s at most", flush=True)
        assert [f.name for f, factor, slack in found if f.grows(factor, slack)] == []
