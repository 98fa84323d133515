"""Beam's rules for elements, watermarks, windows, triggers, state and timers, as state machines.

This module exports all public names, including the names of `dispatch` and `scheduler`.
`beam_runner_engine.testing` has contract tests for implementations of the engine's protocols.
`public_api.txt` lists the signatures of all public names.
"""

from __future__ import annotations

from beam_runner_model.facts import DataFacts
from beam_runner_model.failures import Ending, EndingKind, FailedBundle, FailureCause
from beam_runner_model.panes import (
    NO_FIRING,
    ONLY_FIRING,
    PaneInfo,
    PaneTiming,
    decode_pane,
    encode_pane,
)
from beam_runner_model.rendering import render, render_waits
from beam_runner_model.strategy import (
    AccumulationMode,
    ClosingBehavior,
    MergeStatus,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    Timestamp,
)
from beam_runner_model.timestamp_combiners import TimestampCombiner, combine_timestamps
from beam_runner_model.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterEndOfWindow,
    AfterProcessingTime,
    AfterSynchronizedProcessingTime,
    AlignTo,
    Always,
    DefaultTrigger,
    Delay,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
    fires_once,
    may_fire_early,
)
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_model.window_coders import (
    WindowCoder,
    decode_instant,
    decode_window,
    decode_window_at,
    encode_instant,
    encode_window,
    encoded_max_timestamp,
)
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import (
    GLOBAL_WINDOW,
    GlobalWindow,
    IntervalWindow,
    OpaqueWindow,
    Window,
)

from beam_runner_engine import dispatch, scheduler
from beam_runner_engine.dispatch import *  # noqa: F403
from beam_runner_engine.keyed.bulk import create_bulk_grouper
from beam_runner_engine.keyed.cells import CellDelta, CellId, apply_delta
from beam_runner_engine.keyed.commits import KeyedCommit
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import Group, Groups
from beam_runner_engine.keyed.merging import SessionMerger, merge_sessions
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.keyed.ports import BulkGrouper, CellStore, WindowMerger
from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
)
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import (
    AdmittedRows,
    DueWork,
    SortedElements,
    StatefulSpec,
    TimerFired,
    WindowExpired,
)
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.scheduler import *  # noqa: F403

__all__ = [
    "EMPTY_SUMMARY",
    "END_OF_GLOBAL_WINDOW",
    "GLOBAL_WINDOW",
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "NO_FIRING",
    "ONLY_FIRING",
    "AccumulationMode",
    "AdmittedRows",
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterEndOfWindow",
    "AfterProcessingTime",
    "AfterSynchronizedProcessingTime",
    "AlignTo",
    "Always",
    "BagState",
    "BulkGrouper",
    "CellDelta",
    "CellId",
    "CellStore",
    "ClosingBehavior",
    "CombiningState",
    "DataFacts",
    "DefaultTrigger",
    "Delay",
    "DueWork",
    "Duration",
    "Ending",
    "EndingKind",
    "FailedBundle",
    "FailureCause",
    "FixedWindows",
    "GlobalWindow",
    "GlobalWindows",
    "Group",
    "Groups",
    "IntervalWindow",
    "KeyedCommit",
    "MergeStatus",
    "MultimapState",
    "Never",
    "Now",
    "OnTimeBehavior",
    "OpaqueWindow",
    "OpaqueWindows",
    "OrFinally",
    "OrderedListState",
    "PaneInfo",
    "PaneTiming",
    "Repeatedly",
    "SessionMerger",
    "Sessions",
    "ShardSummary",
    "SlidingWindows",
    "SortedElements",
    "State",
    "StatefulShard",
    "StatefulSpec",
    "TimeDomain",
    "Timer",
    "TimerFired",
    "Timestamp",
    "TimestampCombiner",
    "Trigger",
    "TriggeredGrouper",
    "ValueState",
    "Wait",
    "WaitKind",
    "Window",
    "WindowCoder",
    "WindowExpired",
    "WindowFn",
    "WindowMerger",
    "WindowingStrategy",
    "apply_delta",
    "assign_windows",
    "combine_timestamps",
    "create_bulk_grouper",
    "decode_instant",
    "decode_pane",
    "decode_window",
    "decode_window_at",
    "encode_instant",
    "encode_pane",
    "encode_window",
    "encoded_max_timestamp",
    "fires_once",
    "may_fire_early",
    "merge_sessions",
    "render",
    "render_waits",
]
__all__ += dispatch.__all__
__all__ += scheduler.__all__
