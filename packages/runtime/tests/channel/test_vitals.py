from __future__ import annotations

from pathlib import Path

from beam_runner_runtime.channel.vitals import LivenessData, LivenessWriter, read_liveness


def test_liveness_file_of_process_is_readable_by_other_processes(tmp_path: Path) -> None:
    folder = tmp_path / "process"
    assert read_liveness(folder) is None
    writer = LivenessWriter(folder)
    assert read_liveness(folder) == LivenessData(0, "")
    writer.count_heartbeat()
    writer.record_stage("a-long-name")
    assert read_liveness(folder) == LivenessData(1, "a-long-name")
    writer.count_heartbeat()
    writer.record_stage("s")
    assert read_liveness(folder) == LivenessData(2, "s")
    writer.record_stage("é" * 1000)  # the text is truncated
    assert read_liveness(folder) is not None
