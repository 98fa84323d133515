"""Tests that the memory limit is the machine's memory, or the limit of a control group."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from beam_runner_runtime.memory import VARIABLE, read_memory_limit

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/", {"memory.max": "1000000"}, 1_000_000),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "2000000"}, 2_000_000),
        ("0::/gone", {"memory.max": "max"}, None),
        (
            "5:cpu,memory:/box\n0::/",
            {"memory/box/memory.limit_in_bytes": "3000000"},
            3_000_000,
        ),
        ("5:memory:/on/the/host", {"memory/memory.limit_in_bytes": "4000000"}, 4_000_000),
        ("5:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("5:cpu:/", {"memory/memory.limit_in_bytes": "1"}, None),
    ],
)
def test_memory_limit_of_control_group_is_used(
    tmp_path: Path, groups: str, files: Mapping[str, str], limit: int | None
) -> None:
    _write(tmp_path / "proc/self/cgroup", groups)
    for name, text in files.items():
        _write(tmp_path / "sys/fs/cgroup" / name, text)
    assert read_memory_limit(tmp_path) == (MACHINE if limit is None else limit)


def test_memory_limit_without_control_groups_is_machine_memory(tmp_path: Path) -> None:
    assert read_memory_limit(tmp_path) == MACHINE


@pytest.mark.parametrize(
    ("stated", "limit"), [("1000", 1000), ("", MACHINE), (str(1 << 60), MACHINE)]
)
def test_memory_limit_of_setting_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str, limit: int
) -> None:
    monkeypatch.setenv(VARIABLE, stated)
    assert read_memory_limit(tmp_path) == limit


def test_invalid_memory_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2G")
    with pytest.raises(ValueError, match="BEAM_RUNNER_MEMORY is '2G'; expected a number of bytes"):
        read_memory_limit()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
