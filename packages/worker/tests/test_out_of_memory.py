"""Detection of out-of-memory kills from the counters of the machine and of control groups."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_runner_worker import out_of_memory
from beam_runner_worker.out_of_memory import OutOfMemoryDetector


def test_out_of_memory_kill_on_machine_is_reported_temporarily(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(out_of_memory, "time", SimpleNamespace(monotonic=lambda: now))
    counts = tmp_path / "proc/vmstat"
    _write(counts, "nr_free_pages 7\noom_kill 3\noom_kill_other 9")
    watch = OutOfMemoryDetector(tmp_path)
    assert not watch.has_recent_kill()
    _write(counts, "nr_free_pages 7\noom_kill 4")
    assert watch.has_recent_kill()
    now += 1
    assert watch.has_recent_kill()
    now += 60
    assert not watch.has_recent_kill()
    _write(counts, "oom_kill 6")
    assert watch.has_recent_kill()


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/pod/worker", "sys/fs/cgroup/pod/memory.events"),
        ("4:cpu,memory:/pod", "sys/fs/cgroup/memory/pod/memory.oom_control"),
    ],
)
def test_out_of_memory_kill_in_control_group_is_detected(
    tmp_path: Path, line: str, file: str
) -> None:
    _write(tmp_path / "proc/self/cgroup", line)
    _write(tmp_path / file, "oom 1\noom_kill 0")
    watch = OutOfMemoryDetector(tmp_path)
    assert not watch.has_recent_kill()
    _write(tmp_path / file, "oom 2\noom_kill 1")
    assert watch.has_recent_kill()


def test_system_without_out_of_memory_counter_reports_no_kills(tmp_path: Path) -> None:
    assert not OutOfMemoryDetector(tmp_path).has_recent_kill()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
