"""Commands of the scheduler: the records that `Scheduler.handle_event` returns, in the order in which
the caller must execute them.

Event times and processing times are in milliseconds.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import attrs
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.data import Data


@attrs.frozen
class Input:
    """Input data of a bundle, with the windows of the elements that the bundle processes.

    Attributes:
        data: the data to process.
        windows: the windows to process; None for all. Elements in other windows wait for their side
            inputs and are in another bundle.
        truncate: whether the caller must truncate the restrictions before processing.
        estimator_state: the watermark estimator state of a residual.
        whole: whether a drain processes the restrictions to their end, without truncating them.
            True for truncated restrictions, and for the first part of a split restriction. If the
            caller splits such an input, all parts are whole.
    """

    data: Data
    windows: frozenset[Window] | None = None
    truncate: bool = False
    estimator_state: Any = None
    whole: bool = False


@attrs.frozen
class SideInput:
    """Data of one window of a side input, in commit order."""

    name: str
    window: Window
    data: tuple[Data, ...]


@attrs.frozen
class SectionStageInput:
    """Inputs that one stage of a section reads from outside the section. A section is several stages
    that run as one bundle.

    Attributes:
        stage: the name of the stage.
        inputs: all main inputs, if the stage reads its main input from outside the section.
        side_inputs: the side inputs.
        input_watermark: the watermark (event time, ms) before which elements of the inputs are
            late.
    """

    stage: str
    inputs: tuple[Input, ...]
    side_inputs: tuple[SideInput, ...]
    input_watermark: Timestamp


@attrs.frozen
class Bundle:
    """Work of a stage, or of a section (stages that run together), which succeeds or fails as a
    whole. Attempts at the same bundle differ in `attempt` only, unless a split or a drain changes
    the inputs.

    A bundle of a keyed stage processes its inputs first. Then the bundle fires timers and triggers
    up to `end_watermark` and `processing_time`, and expires windows. A keyed bundle without inputs
    does only the latter. A bundle with joint shards contains several small shards in order; splits
    happen only between shards.

    The bundle of a section has `parts` and no `inputs`. Each part belongs to a stage; stages come
    after the stages that they read from. The bundle does all the work of these stages: timers and
    triggers fire until none remain.

    Attributes:
        number: the number of the bundle.
        attempt: the number of the attempt, from 1.
        stage: the stage; for a section, the first stage.
        shard: the key shard; the first of several joint shards; None if the stage is not keyed.
        inputs: the data to process.
        side_inputs: the side inputs that the bundle can read.
        input_watermark: the watermark (ms) before which elements are late.
        end_watermark: the watermark (ms) up to which event-time timers and triggers fire.
        output_watermark: the output watermark (ms) of the stage when the bundle was opened. Holds
            before this time have no effect.
        processing_time: the processing time (ms) up to which processing-time timers and triggers
            fire.
        draining: whether the job is draining.
        parts: the parts of a section, one for each stage.
    """

    number: int
    attempt: int
    stage: str
    shard: int | None
    inputs: tuple[Input, ...]
    side_inputs: tuple[SideInput, ...]
    input_watermark: Timestamp
    end_watermark: Timestamp
    output_watermark: Timestamp
    processing_time: Timestamp
    draining: bool = False
    parts: tuple[SectionStageInput, ...] = ()


@attrs.frozen
class OpenBundles:
    """Command to run bundles of one stage, in any order. The caller sends a separate event for each
    bundle.
    """

    stage: str
    bundles: tuple[Bundle, ...]


@attrs.frozen
class SplitBundle:
    """Command to ask a running bundle to return part of its remaining work. The caller answers with
    `SplitDone`.

    `fraction` is the fraction of the remaining work that the bundle keeps (`fraction_of_remainder`
    in `beam_fn_api.proto`). 0.0 requests a checkpoint.
    """

    bundle: int
    attempt: int
    fraction: float


@attrs.frozen
class CancelBundles:
    """Command to stop bundles, given by number and attempt.

    The caller doesn't answer. The scheduler ignores later events of these attempts.
    """

    bundles: tuple[tuple[int, int], ...]


@attrs.frozen
class FinalizeBundles:
    """Command to run the finalization callbacks of committed bundles, given by number."""

    bundles: tuple[int, ...]


@attrs.frozen
class RequestTick:
    """Command to send a `Tick` at this processing time (ms). Replaces the previous `RequestTick`."""

    time: Timestamp


@attrs.frozen
class ReleaseState:
    """Command to delete all state of a keyed stage, which will receive no more data.

    The state of an expired window is deleted by the bundle that processes the expiry.
    """

    stage: str


@attrs.frozen
class ReleaseData:
    """Command to delete data that no stage will read again."""

    data: tuple[Data, ...]


class Outcome(enum.Enum):
    """Final state of a job that didn't fail."""

    DONE = "done"
    DRAINED = "drained"
    CANCELLED = "cancelled"


@attrs.frozen
class FinishJob:
    """Command that reports the end of a job that didn't fail."""

    outcome: Outcome


@attrs.frozen
class FailJob:
    """Command that reports the failure of the job.

    Attributes:
        reason: a description for users.
        stage: the stage that failed, if a stage caused the failure.
        causes: the causes of the latest failed attempts, if a bundle caused the failure.
        attempts: the total number of attempts, if a bundle caused the failure.
        kind: the kind of reason.
    """

    reason: str
    stage: str | None = None
    causes: tuple[str, ...] = ()
    attempts: int = 0
    kind: JobFailureKind = attrs.field(default=JobFailureKind.OTHER, converter=JobFailureKind)


Command: TypeAlias = (
    OpenBundles
    | SplitBundle
    | CancelBundles
    | FinalizeBundles
    | RequestTick
    | ReleaseState
    | ReleaseData
    | FinishJob
    | FailJob
)
