"""Writes docs/reference/shutdown.md from the tables of the runtime and of the executor: ``python tools/shutdown_page.py --write``.

Without ``--write``, a page that differs from the tables is an error.
"""

from __future__ import annotations

import argparse
import enum
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
from beam_runner_runtime.shutdown import states
from beam_runner_runtime.shutdown.causes import ShutdownEvent, ShutdownMessage
from beam_runner_runtime.shutdown.detections import Detector
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.transitions import TRANSITIONS
from beam_spark_executor.spark import shutdown as spark

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "shutdown.md"
_KINDS = (
    *(states.ServerState, states.JobPhase, states.LaneState, states.SectionLifecycle),
    *(states.WorkerState, states.HarnessState, states.ForkServerState, states.ReaperState),
    *(states.ProgramState, spark.JavaState, spark.DaemonState, spark.ExecutorState),
)
_HEAD = """\
# Shutdown and failure detection

Detectors of failed processes, time limits, and the states of each kind of process. `tools/shutdown_page.py --write` writes this page from the code. [Recovery](../explanation/recovery.md) describes the effects of failures on a job, and [ADR 0039](../adr/0039-a-table-of-shutdown.md) explains the design.
"""
_DETECTIONS = """\
## Detection of failures

The column *within* has the sum of the time limits, without the delays of a busy machine. *Immediately* means that the operating system reports the failure. If a row is *logged*, the component logs the detection at the level `INFO`.
"""

_STATES = """\
## States and transitions

The table lists the messages and events that change a state. Without another row, `EXITED` leads from each state of a process or lane to GONE, the last state. The table controls the states of a job, of a worker process in the server, and of the fork server. *Program* is a LOOPBACK program, *Daemon* the process that forks Spark's Python workers.
"""


def render_page() -> str:
    """Returns the text of the page."""
    parts = [
        _HEAD,
        _DETECTIONS,
        _render_table(
            ("detector", "failure", "within", "reaction", "logged"),
            _make_detection_rows((*Detector, *spark.SparkDetector)),
        ),
        "## Limits\n",
        _render_table(
            ("limit", "value", "meaning"),
            (*_make_limit_rows(LIMITS), *_make_limit_rows(spark.SPARK_LIMITS)),
        ),
        "## Messages and events\n",
        _render_table(
            ("cause of a change", "meaning"),
            ((f"`{cause.name}`", cause.value) for cause in (*ShutdownMessage, *ShutdownEvent)),
        ),
        _STATES,
        _render_table(
            ("state", "meaning", "next state: causes"),
            (row for kind in _KINDS for row in _make_state_rows(kind)),
        ),
    ]
    return "\n".join(parts)


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


def _make_limit_rows(limits: attrs.AttrsInstance) -> Iterator[tuple[str, ...]]:
    """Yields the rows of a record of limits, which describes its fields in its docstring."""
    said = dict(re.findall(r"^ {8}(\w+): (.*)$", str(type(limits).__doc__), re.MULTILINE))
    for name, value in attrs.asdict(limits).items():
        yield f"`{name}`", f"{value:g}{' s' if name.endswith('_seconds') else ''}", said[name]


def _make_state_rows(kind: type[enum.Enum]) -> Iterator[tuple[str, ...]]:
    """Yields the states of a kind except GONE, and the states that follow except GONE by an exit."""
    for state in kind:
        if state.name == "GONE":
            continue
        follow: dict[str, list[str]] = {}
        for row in (*TRANSITIONS, *spark.SPARK_TRANSITIONS):
            is_plain_exit = row.cause is ShutdownEvent.EXITED and row.after.name == "GONE"
            if row.before is state and row.after is not state and not is_plain_exit:
                follow.setdefault(row.after.name, []).append(f"`{row.cause.name}`")
        then = "; ".join(f"{after}: {', '.join(causes)}" for after, causes in follow.items())
        yield f"{_state_kind_title(kind)}: {state.name}", str(state.value), then


def _state_kind_title(kind: type[enum.Enum]) -> str:
    name = re.sub("(State|Phase|Lifecycle)$", "", kind.__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def main() -> int:
    """Writes the page, or compares it with the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    if parser.parse_args().write:
        PAGE.write_text(render_page())
        return 0
    if PAGE.read_text() != render_page():
        print(f"{PAGE} differs from the tables: run python tools/shutdown_page.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
