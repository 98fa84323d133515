"""Tests that a bounded job fails after the outage limit of its store, and that the next job succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from neighbours import Store
from runs import Plan, Run
from sites import scene

_PATIENCE_SECONDS = 150.0


@pytest.mark.parametrize("kind", ["refuse", "stall"])
def test_bounded_job_beyond_its_outage_limit_fails_and_names_the_store(
    kind: str, tmp_path: Path
) -> None:
    with scene("data store", (), "3s") as running:
        pipelines = Pipelines(running.server.address, "embedded", [])
        store = next(one.neighbour for one in running.targets if isinstance(one.neighbour, Store))

        def begun(name: str) -> Run:
            run = Run(
                Plan("batch", "embedded"),
                pipelines,
                name,
                tmp_path,
                running.site,
                _PATIENCE_SECONDS,
            )
            run.begin()
            run.wait_for_results()
            return run

        failed = begun("too-long")
        store.leave(kind)
        failed.finish()
        assert failed.result.state == JobState.FAILED.name
        assert store.told_by in failed.result.detail
        store.come_back()
        later = begun("later")
        later.finish()
        assert later.result.outcome == "exact"
