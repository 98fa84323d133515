"""Buffers for tests."""

from __future__ import annotations

from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_fns import GlobalWindows

STRATEGY = WindowingStrategy(window_fn=GlobalWindows())


def buffer(buffer_id: str, kind: BufferKind, *, bulk: bool = True) -> BufferPlan:
    """Returns a buffer in the global window."""
    return BufferPlan(buffer_id, kind, STRATEGY, bulk)
