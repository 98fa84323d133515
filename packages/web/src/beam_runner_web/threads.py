"""Stacks of worker threads, the lines of the user's own code first."""

from __future__ import annotations

import attrs
from beam_runner_jobservices.failures import Frame, is_users
from beam_runner_model.observation import ThreadStack

_RUNS_BUNDLES = "/apache_beam/runners/worker/"


@attrs.frozen
class Thread:
    """What a thread does: `frames` innermost first; `sdk` is the environment of its SDK harness."""

    host: str
    pid: int
    name: str
    frames: tuple[Frame, ...]
    sdk: str = ""

    @staticmethod
    def of(stack: ThreadStack) -> Thread:
        """The thread that a stack describes."""
        frames = tuple(
            Frame(one.file, one.line, one.function, one.code, is_users(one.file))
            for one in reversed(stack.frames)
        )
        return Thread(stack.host, stack.pid, stack.thread, frames, stack.sdk)

    @property
    def own(self) -> tuple[Frame, ...]:
        """The lines of the user's own code, innermost first."""
        frames = self.frames
        if self.sdk and any(frame.file.endswith(".py") for frame in frames):
            # A harness may live in the user's own program, whose other threads run no bundle.
            at_work = next((n for n, one in enumerate(frames) if _RUNS_BUNDLES in one.file), 0)
            frames = frames[:at_work]
        return tuple(frame for frame in frames if frame.users)

    @property
    def is_users(self) -> bool:
        """Whether it runs code of the user's own."""
        return bool(self.own)
