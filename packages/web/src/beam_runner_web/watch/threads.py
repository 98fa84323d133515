"""Stacks of worker threads, with the frames of user code first."""

from __future__ import annotations

import attrs
from beam_runner_jobservices.failures import TracebackFrame, is_user_code
from beam_runner_model.observation import ThreadStack

_RUNS_BUNDLES = "/apache_beam/runners/worker/"


@attrs.frozen
class WorkerThread:
    """A thread: `frames` are innermost first, and `sdk` is the environment of its SDK harness."""

    host: str
    pid: int
    name: str
    frames: tuple[TracebackFrame, ...]
    sdk: str = ""

    @staticmethod
    def from_stack(stack: ThreadStack) -> WorkerThread:
        """Returns the thread that a stack describes."""
        frames = tuple(
            TracebackFrame(one.file, one.line, one.function, one.code, is_user_code(one.file))
            for one in reversed(stack.frames)
        )
        return WorkerThread(stack.host, stack.pid, stack.thread, frames, stack.sdk)

    @property
    def user_frames(self) -> tuple[TracebackFrame, ...]:
        """The frames of user code, innermost first."""
        frames = self.frames
        if self.sdk and any(frame.file.endswith(".py") for frame in frames):
            # With LOOPBACK, the harness runs in the user's program, whose other threads don't run bundles.
            at_work = next((n for n, one in enumerate(frames) if _RUNS_BUNDLES in one.file), 0)
            frames = frames[:at_work]
        return tuple(frame for frame in frames if frame.users)

    @property
    def runs_user_code(self) -> bool:
        """Whether the thread runs user code."""
        return bool(self.user_frames)
