"""Finder of element ends in user state, by the coders that transforms declare for it.

SDKs encode elements as the declared coder does, so the ends are those of the declared coder,
whether or not the SDK reads the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.chunks import StateCell
from beam_runner_model.lengths import Skip

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import UnknownCoder, compile_skip
from beam_runner_worker.state_specs import list_coder_ids


@attrs.define(eq=False)
class StateCoders:
    """The coders of the user state of one stage.

    Args:
        specs: the state specs by transform and local name.
        coders: the coders of the stage's descriptor.
    """

    _specs: Mapping[tuple[str, str], beam_runner_api_pb2.StateSpec]
    _coders: Mapping[str, beam_runner_api_pb2.Coder]
    _skips: dict[tuple[str, str, str], Skip | None] = attrs.field(init=False, factory=dict)

    def get_skip_function(self, cell: StateCell, part: str) -> Skip | None:
        """Returns a function that skips an ``element``, ``key`` or ``value`` of a cell; None if the end is unknown."""
        place = (cell.transform_id, cell.state_id, part)
        if place not in self._skips:
            self._skips[place] = self._compile_skip(*place)
        return self._skips[place]

    def has_single_values(self, cell: StateCell) -> bool:
        """Returns whether the keys of this multimap have one value each, because it represents a map or set."""
        spec = self._specs.get((cell.transform_id, cell.state_id))
        return spec is not None and spec.WhichOneof("spec") in ("map_spec", "set_spec")

    def _compile_skip(self, transform_id: str, state_id: str, part: str) -> Skip | None:
        spec = self._specs.get((transform_id, state_id))
        if spec is None:
            return None
        found = dict(list_coder_ids(spec))
        if spec.WhichOneof("spec") == "set_spec":
            found["key"] = found["element"]  # some SDKs read a set as the keys of a multimap
        if part not in found:
            return None
        try:
            return compile_skip(found[part], self._coders)
        except UnknownCoder:
            return None
