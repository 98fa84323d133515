from __future__ import annotations

from pathlib import Path

import pytest
from small_jobs import rig_of

from beam_runner_driver.coordination.coherence import DriverStateError, check_bundle_placement


def test_consistency_check_reports_bundle_that_no_lane_or_queue_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_of(tmp_path)
    check_bundle_placement(rig.coordinator)
    monkeypatch.setattr(rig.coordinator.lanes, "list_running_and_queued_attempts", set)
    with pytest.raises(DriverStateError, match=r"job-1 open, but neither run nor wait: \[\d"):
        check_bundle_placement(rig.coordinator)


def test_consistency_check_reports_attempt_in_two_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_of(tmp_path)
    (attempt, *_) = rig.coordinator.lanes.list_running_and_queued_attempts()

    class Section:
        def __init__(self) -> None:
            self.attempt = attempt

    monkeypatch.setattr(rig.coordinator.sections, "list_running", lambda: iter([Section()]))
    with pytest.raises(DriverStateError, match="on a lane and in a section"):
        check_bundle_placement(rig.coordinator)
