from __future__ import annotations

from pathlib import Path

from beam_runner_runtime.channel.vitals import Vitals, VitalsWriter, read_vitals


def test_written_vitals_are_visible_to_other_processes(tmp_path: Path) -> None:
    folder = tmp_path / "process"
    assert read_vitals(folder) is None
    writer = VitalsWriter(folder)
    assert read_vitals(folder) == Vitals(0, "")
    writer.count_heartbeat()
    writer.record_stage("a-long-name")
    assert read_vitals(folder) == Vitals(1, "a-long-name")
    writer.count_heartbeat()
    writer.record_stage("s")
    assert read_vitals(folder) == Vitals(2, "s")
    writer.record_stage("é" * 1000)  # the text is truncated
    assert read_vitals(folder) is not None
