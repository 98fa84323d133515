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
from beam_runner_runtime.shutdown.kills import KILLS
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.transitions import TRANSITIONS, StateTransition
from beam_spark_executor.spark import shutdown as spark

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "shutdown.md"
_KINDS = (
    *(states.ServerState, states.JobPhase, states.LaneState, states.SectionLifecycle),
    *(states.WorkerState, states.HarnessState, states.ForkServerState, states.ReaperState),
    states.ProgramState,
)
_SPARK_KINDS = (spark.JavaState, spark.DaemonState, spark.ExecutorState)
_HEAD = """\
# Shutdown and failure detection

This page lists the states of every kind of process, the messages and events that change the states, the time limits, and the component
that detects each failure. The script `tools/shutdown_page.py` generates this page from the packages `beam_runner_runtime.shutdown` and
`beam_spark_executor.spark.shutdown`. [Fault tests](../appendix/faults.md) describes the effects of failures on a job, and
[ADR 0039](../adr/0039-a-table-of-shutdown.md) explains the design.

The table of transitions controls the states of a job (`RunningJob`), of a worker process in the server (`WorkerLink`), and of the fork server
(`WorkerProcesses`). If the table of transitions has no row for an event, the server logs an error with a stack. If the environment
variable `BEAM_RUNNER_CHECK_SHUTDOWN` is set, as in tests, the server raises an exception instead of logging the error. The tables of all other states are documentation only.
"""
_DETECTIONS = """\
## Detection of failures

The column *within* has the sum of the time limits, without the delays of a busy machine. The value *at once* means that the operating system
reports the failure. If a row is *logged*, the component logs the detection at the level `INFO`.
"""

_KILLS = """\
## Killed processes

This table lists the components that detect the kill of a process, by the state of the killed process. The tests `tests/kills/test_shutdown_table.py`,
`packages/runtime/tests/shutdown/test_killed_workers.py` and `packages/runtime/tests/processes/test_placement.py` kill a process in each of these
states, and compare the outcome and the log with this table. If a detector doesn't log, the tests raise the limits of other detectors, so that
only the tested detector can cause the outcome.
"""


def render_page() -> str:
    """Returns the text of the page."""
    parts = [
        _HEAD,
        _DETECTIONS,
        _render_table(
            ("detector", "component", "failure", "within", "reaction", "logged"),
            _detection_rows(Detector),
        ),
        "## Detection of failures of Spark\n",
        _render_table(
            ("detector", "component", "failure", "within", "reaction"),
            (row[:-1] for row in _detection_rows(spark.SparkDetector)),
        ),
        _KILLS,
        _render_table(("killed", "state", "detectors", "outcome"), _kill_rows()),
        "## Messages\n",
        _render_table(("message", "meaning"), ((f"`{m.name}`", m.value) for m in ShutdownMessage)),
        "## Events\n",
        _render_table(("event", "meaning"), ((f"`{e.name}`", e.value) for e in ShutdownEvent)),
        "## Limits\n",
        _render_limits(LIMITS),
        "## Limits of Spark's processes\n",
        _render_limits(spark.SPARK_LIMITS),
        "## States and transitions\n",
        *(_render_states(kind, TRANSITIONS) for kind in _KINDS),
        "## States and transitions of Spark's processes\n",
        *(_render_states(kind, spark.SPARK_TRANSITIONS) for kind in _SPARK_KINDS),
    ]
    return "\n".join(parts)


def _render_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _render_time_limit(seconds: float, names: tuple[str, ...]) -> str:
    if not names:
        return "at once"
    return f"{seconds:g} s: {' + '.join(f'`{name}`' for name in names)}"


def _detection_rows(detectors: Iterable[enum.Enum]) -> Iterator[tuple[str, ...]]:
    for one in detectors:
        row = one.value
        within, logged = _render_time_limit(row.seconds, row.limits), "yes" if row.is_logged else ""
        yield (f"`{one.name}`", row.component, row.failure, within, row.reaction, logged)


def _kill_rows() -> Iterator[tuple[str, ...]]:
    for row in KILLS:
        detectors = ", ".join(f"`{one.name}`" for one in row.detectors)
        yield (_state_kind_title(type(row.state)), row.state.name, detectors, row.outcome)


def _render_limits(limits: attrs.AttrsInstance) -> str:
    """Returns the table of a record of limits, which describes its fields in its docstring."""
    said = dict(re.findall(r"^ {8}(\w+): (.*)$", str(type(limits).__doc__), re.MULTILINE))
    rows = (
        (f"`{name}`", f"{value:g}{' s' if name.endswith('_seconds') else ''}", said[name])
        for name, value in attrs.asdict(limits).items()
    )
    return _render_table(("limit", "value", "meaning"), rows)


def _render_states(kind: type[enum.Enum], transitions: tuple[StateTransition, ...]) -> str:
    """Returns the section of a kind: each state, its meaning, and the states that follow."""
    rows = []
    for state in kind:
        follow: dict[str, list[str]] = {}
        for row in transitions:
            if row.before is state:
                follow.setdefault(row.after.name, []).append(f"`{row.cause.name}`")
        then = "; ".join(f"{', '.join(causes)} → {after}" for after, causes in follow.items())
        rows.append((state.name, str(state.value), then))
    doc = str(kind.__doc__).partition("\n")[0]
    return (
        f"### {_state_kind_title(kind)}\n\nThis table lists the {doc[0].lower()}{doc[1:]}\n\n"
        + _render_table(("state", "meaning", "causes → next state"), rows)
    )


def _state_kind_title(kind: type[enum.Enum]) -> str:
    name = kind.__name__.removesuffix("State").removesuffix("Phase")
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
