"""What all bundles of a stage have in common."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_engine.values.window_coders import WindowCoder

from beam_spark_executor.bundles.timers_ahead import Trust
from beam_spark_executor.channel.messages import JobWork
from beam_spark_executor.clock import ProcessingClock
from beam_spark_executor.job_options import is_loopback
from beam_spark_executor.memory import bundle_budget, section_budget
from beam_spark_executor.plan import BufferPlan, StagePlan


@attrs.frozen
class StageWork:
    """What all bundles of a stage have in common.

    Attributes:
        stage: the stage.
        input_buffer: what it reads; None for an impulse.
        output_buffers: what each output writes to, by the output's transform id.
        shards: how many key shards there are.
        budget: how many bytes of rows a bundle may group in memory.
        hides_elements: whether errors must not show the element that was processed.
        clock: the job's processing time.
        trust: whether several timers of a key are told in one go.
        is_loopback: whether the program that submitted the job runs its user code.
    """

    stage: StagePlan
    input_buffer: BufferPlan | None
    output_buffers: Mapping[str, BufferPlan]
    shards: int
    budget: int = attrs.field(factory=bundle_budget)
    hides_elements: bool = False
    clock: ProcessingClock = attrs.field(factory=ProcessingClock)
    trust: Trust = attrs.field(factory=Trust)
    is_loopback: bool = False

    @property
    def told_windows(self) -> WindowCoder | None:
        """The coder of its input's windows, if its input must tell them."""
        source = self.input_buffer
        if source is None or not source.windows:
            return None
        assert source.strategy is not None
        return source.strategy.window_coder

    @classmethod
    def of(cls, work: JobWork, stage_id: str, clock: ProcessingClock | None = None) -> StageWork:
        """That of a stage of a job."""
        stage = work.plan.stages[stage_id]
        buffers = work.plan.buffers
        source = stage.input_buffer
        return cls(
            stage=stage,
            input_buffer=None if source is None else buffers[source],
            output_buffers={t: buffers[b] for t, b in stage.outputs.items()},
            shards=work.shards,
            hides_elements=work.hides_elements,
            clock=ProcessingClock.showing(work.now) if clock is None else clock,
            trust=Trust(kept=not stage.embedded),
            is_loopback=not stage.embedded and is_loopback(work.plan.context.options_json),
        )

    def in_section(self) -> StageWork:
        """The same for a bundle of a section: what it has handed on is on its way, so it can't begin again."""
        return attrs.evolve(self, trust=Trust(kept=False), budget=section_budget())
