"""Measures the CPU that the server needs for a bundle, with simulated workers: ``python tests/scale/scale.py``.

The jobs are streams with the real scheduler, coordinator and journal. The channel, the placement and
the workers are simulated, so the figures don't include gRPC, the web pages or the Job API.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from itertools import chain
from pathlib import Path
from random import Random

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.spec import StoreSpec
from job_ledgers import begin_ledger
from servers import Reporter
from simulated_workers import SimulatedPlacement, WorkerClock, make_stream_plan

SHARDS = 64


@attrs.frozen
class Simulation:
    """Jobs to simulate.

    Attributes:
        jobs: number of streams at the same time.
        lanes: number of lanes of each stream, all of which are busy.
        bundle_seconds: mean duration of a bundle.
        failures: share of the bundles that fail.
        durable: whether the journal syncs its file after each commit.
    """

    jobs: int
    lanes: int
    bundle_seconds: float
    failures: float = 0.0
    durable: bool = False


@attrs.frozen
class Measurement:
    """Result of a simulation.

    Attributes:
        rate: ended bundles per second.
        cpu_seconds_per_bundle: CPU of the server's threads for a bundle.
        cores: CPU of the server's threads per second.
        delays: sorted times in seconds between the end of a bundle and the lane's next order.
    """

    rate: float
    cpu_seconds_per_bundle: float
    cores: float
    delays: list[float]

    def get_delay(self, share: float) -> float:
        """Returns a quantile of the delays in seconds; 0 without a delay."""
        return self.delays[int(share * (len(self.delays) - 1))] if self.delays else 0.0


def measure(simulation: Simulation, seconds: float, seed: int, folder: Path) -> Measurement:
    """Runs a simulation, and measures it for `seconds` after as many seconds of warming up."""
    clock = WorkerClock()
    store = JournalStore(folder / "journal", durable=simulation.durable)
    slots = ClusterSlots(simulation.jobs * simulation.lanes)
    placements = []
    for number in range(simulation.jobs):
        placement = SimulatedPlacement(
            clock,
            simulation.lanes,
            simulation.bundle_seconds,
            simulation.failures,
            Random(f"{seed}-{number}"),
        )
        placement.job = _make_job(simulation, placement, store, slots, folder, f"job-{number}")
        placements.append(placement)
    clock.start()
    for placement in placements:
        placement.job.start()
    time.sleep(seconds)
    for placement in placements:
        placement.bundles = 0
        placement.delays.clear()
    began, cpu = time.monotonic(), time.process_time() - clock.cpu_seconds
    time.sleep(seconds)
    took, cpu = time.monotonic() - began, time.process_time() - clock.cpu_seconds - cpu
    bundles = sum(placement.bundles for placement in placements)
    delays = sorted(chain.from_iterable(list(placement.delays) for placement in placements))
    for placement in placements:
        placement.job.cancel()
    for placement in placements:
        placement.job.wait_for_end(60.0)
    clock.stop()
    store.close()
    return Measurement(bundles / took, cpu / max(1, bundles), cpu / took, delays)


def _make_job(
    simulation: Simulation,
    placement: SimulatedPlacement,
    store: JournalStore,
    slots: ClusterSlots,
    folder: Path,
    job_id: str,
) -> RunningJob:
    plan = make_stream_plan()
    plan = attrs.evolve(plan, context=attrs.evolve(plan.context, job_id=job_id))
    lanes = simulation.lanes
    limits = Limits(parallelism=lanes, bundles_per_stage=max(SHARDS, lanes), user_attempts=4)
    journal = store.get_journal(job_id)
    ledger = begin_ledger(journal, plan, SHARDS, limits, DefaultPolicy(bundle_bytes=1))
    files = JobFolder(StoreSpec(str(folder / job_id)))
    (folder / job_id).mkdir()
    settings = JobSettings(files, store.epoch, simulation.lanes, 2 * simulation.lanes, -1)
    return RunningJob(
        ledger,
        journal,
        Reporter(),
        placement,
        JobSlots(slots, job_id),
        settings,
        lambda sha256: iter(()),
        lambda job: None,
    )


def main() -> None:
    """Measures each combination of the given numbers, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 200, 1000])
    parser.add_argument("--bundle-ms", type=float, default=1000.0, help="mean duration")
    parser.add_argument("--failures", type=float, default=0.0, help="share of failing bundles")
    parser.add_argument("--durable", action="store_true", help="sync the journal")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print("| jobs | lanes of each | bundles/s | CPU per bundle | cores | delay p50 | delay p99 |")
    print("|---|---|---|---|---|---|---|")
    for jobs in options.jobs:
        for lanes in options.lanes:
            simulation = Simulation(
                jobs, lanes, options.bundle_ms / 1000, options.failures, options.durable
            )
            with tempfile.TemporaryDirectory() as folder:
                found = measure(simulation, options.seconds, options.seed, Path(folder))
            delays = " | ".join(f"{found.get_delay(one) * 1000:.1f} ms" for one in (0.5, 0.99))
            print(
                f"| {jobs} | {lanes} | {found.rate:.0f} "
                f"| {found.cpu_seconds_per_bundle * 1000:.2f} ms | {found.cores:.2f} | {delays} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
