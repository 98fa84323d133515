"""Writes docs/reference/shutdown.md from the detectors of the runtime and of the executor: ``python tools/shutdown_page.py --write``.

Without ``--write``, a page that differs from the detectors is an error.
"""

from __future__ import annotations

import argparse
import enum
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from beam_runner_runtime.shutdown.detections import Detector
from beam_spark_executor.spark.shutdown import SparkDetector

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "shutdown.md"
_HEAD = """\
# Failure detection

Each row of the table is a component that detects a lost or stuck process. `tools/shutdown_page.py --write` writes this page from the code, which also has the tables of [time limits](../../packages/runtime/src/beam_runner_runtime/shutdown/limits.py), [states](../../packages/runtime/src/beam_runner_runtime/shutdown/states.py) and [transitions](../../packages/runtime/src/beam_runner_runtime/shutdown/transitions.py) ([ADR 0039](../adr/0039-a-table-of-shutdown.md)). [Recovery](../explanation/recovery.md) describes the effects of failures on a job.

The column *within* has the sum of the time limits, without the delays of a busy machine. *Immediately* means that the operating system reports the failure. The component of a *logged* row logs the detection at the level `INFO`.
"""


def render_page() -> str:
    """Returns the text of the page."""
    table = _render_table(
        ("detector", "failure", "within", "reaction", "logged"),
        _make_detection_rows((*Detector, *SparkDetector)),
    )
    return f"{_HEAD}\n{table}"


def _render_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join([*lines, ""])


def _render_time_limit(seconds: float, names: tuple[str, ...]) -> str:
    if not names:
        return "immediately"
    return f"{seconds:g} s: {' + '.join(f'`{name}`' for name in names)}"


def _make_detection_rows(detectors: Iterable[enum.Enum]) -> Iterator[tuple[str, ...]]:
    for one in detectors:
        row = one.value
        within, logged = _render_time_limit(row.seconds, row.limits), "yes" if row.is_logged else ""
        yield (f"`{one.name}`", row.failure, within, row.reaction, logged)


def main() -> int:
    """Writes the page, or compares it with the detectors; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    if parser.parse_args().write:
        PAGE.write_text(render_page())
        return 0
    if PAGE.read_text() != render_page():
        print(f"{PAGE} differs from the detectors: run python tools/shutdown_page.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
