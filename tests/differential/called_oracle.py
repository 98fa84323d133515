"""The oracle as tests call it in a process that it may end."""

from __future__ import annotations

from collections.abc import Mapping

from mortal import At
from runners import Oracle, built
from sink import Outputs
from spec import Spec


def outputs_of_the_oracle(at: At, specs: Mapping[str, Spec]) -> Outputs:
    with built(specs) as made:
        return Oracle().run(made)
