"""Jobs for the channel server whose sections run as Spark jobs, and the outputs of the sections."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from apache_beam.internal.cloudpickle import cloudpickle
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_runtime.channel.messages import (
    BundleReply,
    EndJob,
    ExitProcess,
    FromWorker,
    JobWork,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_spark_executor.spark.sections import SparkSectionRunner

_TEXT = re.compile(rb"<([^<>]*)>")


@attrs.define(eq=False)
class SectionJob:
    """Implements ``channel.server.JobMessageHandler``."""

    work: JobWork
    runner: SparkSectionRunner | None = None
    links: list[WorkerLink] = attrs.field(factory=list)
    said: list[FromWorker] = attrs.field(factory=list)

    def make_job_work(self) -> JobWork:
        return self.work

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def handle_worker_attached(self, link: WorkerLink) -> None:
        self.links.append(link)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        self.said.append(message)
        if self.runner is not None:
            self.runner.handle_section_message(message)

    def handle_worker_detached(self, link: WorkerLink) -> None:
        if link in self.links:
            self.links.remove(link)

    def end(self) -> None:
        for link in list(self.links):
            link.send(EndJob())
            link.send(ExitProcess())


def texts(folder: Path, reply: BundleReply) -> list[str]:
    """Returns all texts in angle brackets among the output elements of a section."""
    rows = (
        row
        for output in reply.done.outputs
        for _, row in read_referenced_rows(folder, output.data.ref)
    )
    return [text.decode() for row in rows for text in _TEXT.findall(bytes(row))]


def goes_to_workers(module: str) -> None:
    """Pickles functions and classes of a test module by value, because workers can't import it."""
    known: Any = sys.modules[module]
    cloudpickle.register_pickle_by_value(known)
