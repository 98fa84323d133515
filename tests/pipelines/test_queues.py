"""`ReadFromQueue` on the runner: messages of failed bundles come again, and committed messages leave the queue."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.deduplicate import DeduplicatePerKey
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_spark_io import QueueMessage, ReadFromQueue
from jobs import Pipelines
from waiting import wait_until

COUNT = 30


class FolderQueue:
    """Queue whose messages are files: a consumer moves a file to its folder, and deletes it later."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_consumer(self) -> Any:
        return FolderConsumer(self.folder)


class FolderConsumer:
    """Consumer with a folder for delivered messages."""

    def __init__(self, folder: Path) -> None:
        self._waiting = folder / "waiting"
        self._delivered = folder / "delivered" / uuid.uuid4().hex
        self._delivered.mkdir(parents=True)

    def receive(self, most: int) -> Sequence[QueueMessage]:
        messages = []
        for name in sorted(os.listdir(self._waiting))[:most]:
            try:
                (self._waiting / name).rename(self._delivered / name)
            except FileNotFoundError:  # another consumer has it
                continue
            messages.append(QueueMessage(name, (self._delivered / name).read_text()))
        return messages

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        for message in messages:
            (self._delivered / message.id).unlink()

    def close(self) -> None:
        pass


class FailOnce(beam.DoFn):
    """DoFn that fails the first attempt with a message."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, element: tuple[str, str]) -> Iterator[tuple[str, str]]:
        if element[0] == "07":
            try:
                (self._folder / "failed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                raise ConnectionError("a service doesn't answer")
        yield element


def test_message_of_a_failed_bundle_is_processed_once_and_acknowledged(
    everywhere: Pipelines, tmp_path: Path
) -> None:
    waiting, delivered = tmp_path / "waiting", tmp_path / "delivered"
    waiting.mkdir()
    for number in range(COUNT):
        (waiting / f"{number:02}").write_text(str(number))
    p = everywhere.new("--streaming")
    _ = (
        p
        | ReadFromQueue(FolderQueue(tmp_path), most=10, poll_seconds=0.1)
        | beam.ParDo(FailOnce(tmp_path)).with_output_types(tuple[str, str])
        | DeduplicatePerKey(processing_time_duration=600)
        | beam.MapTuple(lambda name, data: (tmp_path / f"done-{data}").open("a").write("once"))
    )
    job = everywhere.job(p)
    wait_until(lambda: (tmp_path / "failed").exists(), 60, "a bundle fails")
    wait_until(lambda: not os.listdir(waiting), 60, "the messages are received")
    # The messages of the failed bundle stay without acknowledgement, so the queue delivers them again.
    wait_until(lambda: len(list(tmp_path.glob("done-*"))) == COUNT - 10, 60, "others are processed")
    wait_until(lambda: len(list(delivered.glob("*/*"))) == 10, 60, "others are acknowledged")
    for file in delivered.glob("*/*"):
        file.rename(waiting / file.name)
    (waiting / "00").write_text("0")
    wait_until(lambda: len(list(tmp_path.glob("done-*"))) == COUNT, 60, "all are processed")
    wait_until(lambda: not list(delivered.glob("*/*")), 60, "all are acknowledged")
    with JobClient(everywhere.address) as client:
        client.drain_job(job.job_id)
    assert job.wait() is JobState.DRAINED
    assert all(file.read_text() == "once" for file in tmp_path.glob("done-*"))
