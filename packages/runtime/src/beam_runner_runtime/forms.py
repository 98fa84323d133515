"""Registry of the record classes that are stored on disk or sent by workers, with the names that
identify the classes in this data.

A stored name stays the same after a class is renamed or moved, because other versions read
persisted records by their stored names.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType

import attrs
from beam_runner_data.rows import refs
from beam_runner_engine.keyed import state as kinds_of_state
from beam_runner_engine.keyed import timers
from beam_runner_engine.scheduler import (
    commands,
    data,
    events,
    graph,
    minima,
    policy,
    specs,
    state,
    transitions,
)
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_model import (
    buffers,
    bundles,
    chunks,
    facts,
    quarantine,
    stages,
    strategy,
    summary,
    timestamp_combiners,
    triggers,
    window_coders,
    window_fns,
    windows,
)
from beam_runner_planner import plan

_FORMER = {
    "BundleProcessKind": "BundlePlace",
    "DataStatistics": "DataFacts",
    "DefaultWindowMapping": "SideWindowOf",
    "HarnessStage": "StageSpec",
    "QuarantinedUnitKind": "UnitKind",
    "RequestTick": "WakeAt",
    "SectionStageInput": "SectionPart",
    "SectionStageRecord": "PartRecord",
    "SectionStatistics": "SectionFacts",
    "SideInputState": "SideState",
    "SideInputView": "SideView",
    "StageTimeSeries": "StageSeries",
    "StageTimer": "Timer",
    "TestStreamState": "ScriptState",
    "TimeMultiset": "CountedTimes",
    "YieldRequested": "GiveWay",
}
"""Stored names of renamed classes, by their current name."""


def collect_record_classes(modules: Mapping[str, Sequence[ModuleType]]) -> dict[str, type]:
    """Returns all records, enums and state kinds that modules define, by name.

    Args:
        modules: modules, by the prefix for the names of their classes.
    """
    found: dict[str, type] = {}
    for prefix, some in modules.items():
        for module in some:
            for name, cls in inspect.getmembers(module, inspect.isclass):
                own = cls.__module__ == module.__name__
                is_state = issubclass(cls, kinds_of_state.State)
                if own and (attrs.has(cls) or issubclass(cls, enum.Enum) or is_state):
                    known = found.setdefault(prefix + _FORMER.get(name, name.lstrip("_")), cls)
                    assert known is cls, f"{cls} and {known} have the same name"
    return found


FORMS = collect_record_classes(
    {
        "": (
            *(commands, data, events, facts, graph, minima, policy, specs, state, summary),
            *(transitions, strategy, timestamp_combiners, triggers, window_coders, window_fns),
            *(windows, kinds_of_state, timers, refs),
        ),
        "plan ": (plan, buffers),
        "worker ": (stages, chunks, bundles, quarantine),
    }
)
"""Classes that a plan, a journal entry or a scheduler state can contain, by persisted name."""

SHARED = (
    *(cls for cls in vars(state).values() if attrs.has(cls) and cls.__module__ == state.__name__),
    *(Bundle, Data),
)
"""Classes whose objects the codec writes only once if several records refer to the same object."""

CONSTANTS = (windows.GLOBAL_WINDOW,)

REMOVED = {"plan BufferPlan": frozenset({"in_order"})}
"""Obsolete fields in the journals of older versions, by the name of the record."""
