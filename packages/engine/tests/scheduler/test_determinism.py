"""Tests that the same events produce the same commands in every process, independent of hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs
from beam_runner_model.windows import OpaqueWindow, Window

from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.events import BundleDone, Output, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageSpec,
)

from .samples import data

WINDOWS = [OpaqueWindow(bytes((number,)) * 9, 100) for number in range(20)]


@attrs.frozen
class SameWindow:
    """Mapping of each window to itself, as an SDK's mapping can be."""

    def map_window(self, main_window: Window | None) -> Window | None:
        return main_window


def commands() -> list[str]:
    """Returns the commands of a job with data in many windows whose hashes depend on the hash seed."""
    side = SideInputSpec("side", "made", SameWindow(), SideInputReadiness.FIRST_PANE)
    graph = GraphSpec(
        (
            StageSpec("make", ("root",), ("made",)),
            StageSpec("read", ("main",), side_inputs=(side,)),
        ),
        ("root", "main"),
    )
    scheduler = Scheduler(graph)
    mains = [Output("main", data(f"m{n}", n, windows=WINDOWS[n:])) for n in range(10)]
    given = scheduler.handle_event(Start(roots=(Output("root", data("r")), *mains)))
    made = tuple(Output("made", data(f"s{n}", n, windows=WINDOWS[n : n + 9])) for n in range(9))
    given += scheduler.handle_event(BundleDone(0, 1, made))
    return [
        repr((bundle.number, [one.data.ref for one in bundle.inputs], names(bundle.side_inputs)))
        for command in given
        if isinstance(command, OpenBundles)
        for bundle in command.bundles
    ]


def names(side_inputs: object) -> list[object]:
    return [
        (side.window.encoded[0], [one.ref for one in side.data])
        for side in side_inputs  # type: ignore[attr-defined]
    ]


def test_commands_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys; sys.path[:] = {path!r}\n"
        "from {module} import commands\n"
        "print('\\n'.join(commands()))\n"
    ).format(
        path=[os.path.dirname(os.path.dirname(__file__)), *sys.path],
        module="scheduler.test_determinism",
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {"\n".join(commands()) + "\n"}
