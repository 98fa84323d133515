"""A steady stream in which something dies every 30 s ends as if nothing had, and uses no more at the end.

In the first half everything dies; in the second one workers only, so that the server and Spark live
long enough to be seen growing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from beam_runner_jobservices import JobState
from chaos import strike
from gauges import Arrival, Sample, Trend, arrivals, line, look, trend
from jobs import Job, Pipelines
from lives import Lives, lives
from steady import WINDOW, Stream, steady

SAMPLE_SECONDS = 5
WARM_SECONDS = 60
"""At first everything grows."""
FIRST_HALF = ("worker", "worker", "worker", "java", "server")
SECOND_HALF = ("worker",)
START_SECONDS = 5

PipelinesOf = Callable[[Lives, str], Pipelines]


class Soak:
    """The stream under fire, and what was seen of it."""

    def __init__(
        self, lives: Lives, state: Path, job: Job, stream: Stream, seed: int, every: int
    ) -> None:
        self._every = every
        self._job = job
        self._lives = lives
        self._state = state
        self._stream = stream
        self._random = random.Random(seed)
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Until all numbers are due."""
        end = self._stream.start + self._stream.seconds
        half = self._stream.start + self._stream.seconds / 2
        kill_at = self._stream.start + self._every
        while (now := time.time()) < end:
            self.samples.append(look(self._lives, self._state))
            print(f"SAMPLE {line(self.samples[-1])}", flush=True)
            if self._job.state().is_terminal:
                return
            if now >= kill_at and self._kill(FIRST_HALF if now < half else SECOND_HALF):
                kill_at = max(kill_at + self._every, time.time() + SAMPLE_SECONDS)
            time.sleep(SAMPLE_SECONDS)

    def _kill(self, kinds: tuple[str, ...]) -> bool:
        """Whether there was one to kill; else one of the next time."""
        kind = self._random.choice(kinds)
        found = strike(self._lives, kind, self._random.randrange(100))
        if found:
            print(f"KILL {kind} at {time.time():.0f}", flush=True)
        return found


def trends(samples: list[Sample], arrived: list[Arrival]) -> list[tuple[Trend, float, float]]:
    """Figures that must not grow, each with the factor and the number that are noise."""
    warm = [one for one in samples if one.at > samples[0].at + WARM_SECONDS]
    last_life = [one for one in samples if one.life == samples[-1].life]
    old = [one for one in last_life if one.at > last_life[0].at + WARM_SECONDS]

    def of(name: str, things: list[Sample], value: Callable[[Sample], float]) -> Trend:
        return trend(name, [(sample.at, value(sample)) for sample in things])

    def late(kind: str, since: float) -> Trend:
        seen = sorted((a.at, a.late) for a in arrived if a.kind == kind and a.at >= since)
        return trend(f"seconds that a {kind} is late since {since - samples[0].at:.0f} s", seen)

    return [
        (of("files", warm, lambda s: s.files), 1.2, 20),
        (of("MB of files", warm, lambda s: s.file_megabytes), 1.2, 2),
        *(
            (of(f"MB of {kind}", old, lambda s, k=kind: s.megabytes.get(k, 0.0)), 1.1, 20)
            for kind in ("server", "java", "python")
        ),
        (of("threads", old, lambda s: s.threads), 1.1, 10),
        (of("descriptors", old, lambda s: s.descriptors), 1.1, 20),
        *(
            (late(kind, since), 1.5, slack)
            for kind, slack in (("number", 0.3), ("window", 0.5))
            for since in (warm[0].at, old[0].at)
            if arrived
        ),
    ]


def finish(job: Job, stream: Stream) -> None:
    """The stream ends in the state in which it would have ended anyway."""
    assert job.wait(180) is JobState.DONE, [m.text for m in job.messages()][-3:]
    told = {name: job.counter(name) for name in stream.results}
    print(f"RESULTS {told}", flush=True)
    assert told == stream.results


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_a_steady_stream_under_fire(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, request: pytest.FixtureRequest
) -> None:
    minutes = request.config.getoption("--minutes")
    rate = request.config.getoption("--rate")
    seed = request.config.getoption("--seed")
    every = request.config.getoption("--every")
    state = tmp_path / "state"
    with lives(temporary, state) as running:
        start = (int(time.time() + START_SECONDS) // WINDOW + 1) * WINDOW
        stream = Stream(start, rate, minutes * 60, tmp_path / "latencies")
        pipelines = pipelines_of(running, "embedded")
        pipeline = pipelines.new("--streaming")
        steady(pipeline, stream)
        job = pipelines.job(pipeline)
        soak = Soak(running, state, job, stream, seed, every)
        soak.run()
        finish(job, stream)
        found = trends(soak.samples, arrivals(stream.latencies))
        for figure, factor, slack in found:
            mark = "GROWS" if figure.grows(factor, slack) else "flat"
            print(f"TREND {figure.name}: {figure.first} -> {figure.last} {mark}", flush=True)
        print(f"KILLED {dict(running.kills)}, served again after {running.slowest:.1f} s at most")
        assert [f.name for f, factor, slack in found if f.grows(factor, slack)] == []
