"""Placement of stage boundaries in jobs with a quarantine, so that the runner can isolate each element
that fails.

The runner isolates the elements of a stage's input. So a stage must not begin with a source and
continue with other transforms: its input is an impulse or a restriction, which stands for all
elements of the source. A step that the user selects is the first of its stage, so that the isolated
element is exactly the element that the step fails for.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner.step_names import is_step_named
from beam_runner_planner.steps import IMPULSE_BUFFER, Step


@attrs.frozen
class ElementIsolation:
    """Steps whose elements the runner must be able to isolate.

    Attributes:
        steps: the full names of steps or composites; all steps if empty.
        option: the name of the option that selects the steps, for error messages.
    """

    steps: tuple[str, ...]
    option: str

    def must_start_stage(
        self, step: Step, maker: Step | None, find_producer: Callable[[Step], Step | None]
    ) -> bool:
        """Returns whether a step must be the first step of a stage, so that the runner can isolate
        its failing elements.

        Args:
            step: the step.
            maker: the step that produces its input.
            find_producer: function that returns the step that produces a step's input.
        """
        if maker is None or step.writes_buffer:
            return False
        origin = find_producer(maker)
        reads_impulse = origin is not None and origin.buffer == IMPULSE_BUFFER
        if maker.urn == transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS:
            return True
        if reads_impulse and origin is not None and origin.reads_buffer:
            return True
        return self._is_step_selected(step) and not self._is_step_selected(maker)

    def _is_step_selected(self, step: Step) -> bool:
        return is_step_named(step.name, self.steps)
