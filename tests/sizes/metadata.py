"""Server's metadata of a job of a terabyte, and the work of the server's thread: ``python metadata.py
section|lanes MAPS SHARDS``.

The data itself doesn't exist. The script reports that the readers have written their shards, and
that the shards are grouped. Scheduler, ledger and journal are the real ones. Prints one line of
JSON.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/doubles"))

from beam_runner_data.rows.refs import FileRows
from beam_runner_driver.ledger.journal_codec import encode_entries
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_engine.scheduler.commands import Bundle, Command, FinishJob, OpenBundles
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output, Start
from beam_runner_engine.scheduler.policy import DefaultPolicy, DefaultSectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.buffers import BufferKind
from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_storage.journal.store import JournalStore
from sample_buffers import buffer
from small_plans import plan_of, stage

BYTES = 10**12
ROW_BYTES = 1 << 20
PLAN = plan_of(
    [
        stage("split", None, {"out": "pieces"}),
        stage("read", "pieces", {"out": "pairs"}, splittable=True),
        stage("count", "pairs", {"out": "counts"}, groups=True),
        stage("write", "counts"),
        stage("look", "counts"),
    ],
    [
        buffer("pieces", BufferKind.STORED),
        buffer("pairs", BufferKind.GROUPED),
        buffer("counts", BufferKind.STORED),
    ],
)


class Server:
    """Server, reduced to the metadata of one job.

    Args:
        folder: folder for the journal.
        maps: number of chunks that are read.
        shards: number of shards.
        sections: whether stages run as sections (one Spark job for several stages).
    """

    def __init__(self, folder: Path, maps: int, shards: int, *, sections: bool) -> None:
        self._maps = maps
        self._shards = shards
        self._journal = JournalStore(folder, durable=False).get_journal("job")
        policy = DefaultSectionPolicy() if sections else None
        limits = Limits(parallelism=shards)
        self.ledger = JobLedger(PLAN, shards, limits, DefaultPolicy(), policy)
        self.bundles = 0
        self.references = 0

    def run(self) -> None:
        """Runs the job to its end."""
        waiting = deque[Command](self.ledger.apply_journal_entry(Start(0, make_root_outputs(PLAN))))
        self._journal.store_snapshot(self.ledger.encode_snapshot())
        while self.ledger.end is None:
            command = waiting.popleft()
            if isinstance(command, OpenBundles):
                for bundle in command.bundles:
                    waiting.extend(self._done(bundle))
        assert isinstance(self.ledger.end, FinishJob), self.ledger.end

    def _done(self, bundle: Bundle) -> Iterable[Command]:
        name = f"1-{bundle.number}-1"
        pickle.dumps(RunBundle(bundle, name), pickle.HIGHEST_PROTOCOL)
        outputs = tuple(self._outputs(bundle, name))
        summary = None if bundle.shard is None else EMPTY_SUMMARY
        done = BundleDone(bundle.number, bundle.attempt, outputs, summary=summary)
        reply = BundleReply(done, None, ())
        self.bundles += 1
        self.references += len(outputs)
        self._journal.append_entries((encode_entries((reply,)),))
        commands = self.ledger.apply_journal_entry(reply)
        self.ledger.take_unneeded_files()
        return commands

    def _outputs(self, bundle: Bundle, name: str) -> Iterable[Output]:
        if bundle.stage == "split":
            return (
                self._output("pieces", f"{name}-{n}", BYTES // self._maps, None)
                for n in range(self._maps)
            )
        shards = range(self._shards)
        if bundle.parts:
            return (self._output("counts", f"{name}-{n}", 10**6, None) for n in shards)
        if bundle.stage == "read":
            pieces = sum(one.data.facts.count for one in bundle.inputs)
            size = BYTES * pieces // (self._maps * self._shards)
            return (self._output("pairs", name, size, n) for n in shards)
        if bundle.stage == "count":
            return (self._output("counts", name, 10**6, None),)
        return ()

    def _output(self, collection: str, file: str, size: int, shard: int | None) -> Output:
        count = 1 if collection == "pieces" else max(1, size // 1000)
        rows = tuple(range(1 + size // ROW_BYTES))
        data = Data(FileRows(f"{file}.arrow", rows), DataStatistics(count, size, 0, shard, None))
        return Output(collection, data)


def main(way: str, maps: int, shards: int) -> None:
    """Runs the job once."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "journal", maps, shards, sections=way == "section")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.thread_time()
        server.run()
        busy = time.thread_time() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    told = {
        "way": way,
        "maps": maps,
        "shards": shards,
        "bundles": server.bundles,
        "references": server.references,
        "busy_seconds": round(busy, 1),
        "grown_megabytes": round(grown / 1024, 1),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
