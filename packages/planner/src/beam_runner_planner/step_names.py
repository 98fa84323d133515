"""Names of steps and composites in the options of a job."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from beam_runner_model.texts import is_step_or_in_composite

from beam_runner_planner import _protos
from beam_runner_planner.errors import InvalidPipeline


def check_step_names(pipelines: Iterable[bytes], names: Collection[str], option: str) -> None:
    """Checks that each name is the full name of a step or composite of one of the pipelines.

    Args:
        pipelines: serialized pipelines.
        names: the values of the option.
        option: the name of the option, for the error.

    Raises:
        InvalidPipeline: A name is unknown; the error has the name.
    """
    known = {
        transform.unique_name
        for one in pipelines
        for transform in _protos.Pipeline.FromString(one).components.transforms.values()
    }
    for name in sorted(set(names) - known):
        meant = difflib.get_close_matches(name, sorted(known), 1)
        hint = f"did you mean {meant[0]!r}?" if meant else "expected the full name of a step"
        raise InvalidPipeline(f"--{option} is {name!r}, and no such step exists: {hint}")


def is_step_named(step: str, names: Iterable[str]) -> bool:
    """Returns whether the names contain a step's name, or the name of a composite around the step."""
    return any(is_step_or_in_composite(step, name) for name in names)
