"""Fails if a report of nox names a skipped session: ``python3 tools/check_skips.py REPORT``.

A session skips itself if the machine lacks a program that it needs. Skips are normal on a
developer's machine. A CI job installs all these programs, so a skip there means that the job tested
nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def find_skipped_sessions(report: Path) -> list[str]:
    """Returns the names of the skipped sessions in a file that ``nox --report`` wrote, in its order."""
    sessions = json.loads(report.read_text(encoding="utf-8"))["sessions"]
    return [session["name"] for session in sessions if session["result"] == "skipped"]


def main(report: str) -> int:
    skipped = find_skipped_sessions(Path(report))
    for name in skipped:
        print(f"Session {name} was skipped: install what its message asks for in this job.")
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
