"""SDK harnesses of worker pools run whole pipelines."""

from __future__ import annotations

import json

import apache_beam as beam
import pytest
from tiny_host import Artifacts, Logs, TinyHost, job_with, new_pipeline

from beam_runner_worker.fnapi import FnApiServer
from beam_runner_worker.records import Environment

pytestmark = pytest.mark.timeout(60)


def test_group_and_side_inputs(thread_pool: Environment, tmp_path):
    out = tmp_path / "out"
    p = new_pipeline()
    words = p | beam.Create(["a", "b", "a", "c", "a"])
    counts = (
        words
        | beam.Map(lambda w: (w, 1))
        | beam.GroupByKey()
        | beam.MapTuple(lambda k, v: (k, sum(v)))
    )
    total = words | beam.combiners.Count.Globally()

    def write(line, n, d, path=str(out)):
        with open(path, "a") as f:
            f.write(json.dumps([line, n, sorted(d)]) + "\n")

    counts | beam.Map(write, beam.pvalue.AsSingleton(total), beam.pvalue.AsDict(counts))
    host = TinyHost(p)
    server = FnApiServer(
        job_with(thread_pool, environments=host.environment_ids), Artifacts(), Logs()
    )
    try:
        host.run(server.harness)
    finally:
        server.close()
    assert sorted(map(json.loads, out.read_text().splitlines())) == [
        [["a", 3], 5, ["a", "b", "c"]],
        [["b", 1], 5, ["a", "b", "c"]],
        [["c", 1], 5, ["a", "b", "c"]],
    ]
