"""Data shared by all bundles of a stage."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.buffers import BufferPlan
from beam_runner_planner.plan import StagePlan

from beam_runner_runtime.bundles.inputs import GLOBAL, InputWindows
from beam_runner_runtime.channel.messages import JobWork
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.job_options import is_loopback
from beam_runner_runtime.memory import compute_bundle_budget, compute_section_budget


@attrs.frozen
class StageContext:
    """Data shared by all bundles of a stage.

    Attributes:
        input_buffer: buffer that the stage reads; None for an impulse.
        output_buffers: buffer of each output, by the output's transform ID.
        budget: maximum bytes of rows that a bundle groups in memory.
        hides_elements: whether errors must not show the element that was processed.
        checks_watermarks: whether a bundle fails if a watermark overtakes data.
        is_loopback: whether the program that submitted the job runs its user code.
    """

    stage: StagePlan
    input_buffer: BufferPlan | None
    output_buffers: Mapping[str, BufferPlan]
    shards: int
    budget: int = attrs.field(factory=compute_bundle_budget)
    hides_elements: bool = False
    clock: ProcessingClock = attrs.field(factory=ProcessingClock)
    checks_watermarks: bool = False
    is_loopback: bool = False

    @property
    def windows(self) -> InputWindows:
        """Window encoding of the stage's input."""
        source = self.input_buffer
        if source is None or source.strategy is None:
            return GLOBAL
        return InputWindows(source.strategy.window_coder, is_split_by_window=source.windows)

    @classmethod
    def create_for_stage(
        cls, work: JobWork, stage_id: str, clock: ProcessingClock | None = None
    ) -> StageContext:
        """Returns the shared data of a job's stage."""
        stage = work.plan.stages[stage_id]
        buffers = work.plan.buffers
        source = stage.input_buffer
        return cls(
            stage=stage,
            input_buffer=None if source is None else buffers[source],
            output_buffers={t: buffers[b] for t, b in stage.outputs.items()},
            shards=work.shards,
            hides_elements=work.hides_elements,
            clock=ProcessingClock.create_synchronized_clock(work.now) if clock is None else clock,
            checks_watermarks=work.checks_watermarks,
            is_loopback=not stage.embedded and is_loopback(work.plan.context.options_json),
        )

    def copy_for_section(self) -> StageContext:
        """Returns a copy for bundles of a section (a Spark job), whose groupings use at most the
        memory of a Spark task.
        """
        return attrs.evolve(self, budget=compute_section_budget())
