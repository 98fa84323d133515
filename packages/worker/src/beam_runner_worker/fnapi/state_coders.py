"""Skip functions for user state, compiled from the coders that stateful transforms declare.

SDKs encode the elements of user state in the same way as the declared coder, even if an SDK doesn't
read the declaration. So the skip functions of the declared coder find the ends of elements.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.chunks import StateCell
from beam_runner_model.lengths import Skip

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.fnapi.skipping import UnknownCoder, compile_skip_function
from beam_runner_worker.state_specs import list_coder_ids


@attrs.define(eq=False)
class StateCoders:
    """Skip functions for the user state of one stage.

    Args:
        specs: the state specs by transform and local name.
        coders: the coders of the stage's descriptor.
    """

    _specs: Mapping[tuple[str, str], beam_runner_api_pb2.StateSpec]
    _coders: Mapping[str, beam_runner_api_pb2.Coder]
    _skips: dict[tuple[str, str, str], Skip | None] = attrs.field(init=False, factory=dict)

    def get_skip_function(self, cell: StateCell, part: str) -> Skip | None:
        """Returns a function that skips an encoded ``element``, ``key`` or ``value`` of a cell; None
        if the runner can't find the end.
        """
        place = (cell.transform_id, cell.state_id, part)
        if place not in self._skips:
            self._skips[place] = self._compile_skip(*place)
        return self._skips[place]

    def has_single_values(self, cell: StateCell) -> bool:
        """Returns True if each key of a multimap has only one value, because the multimap represents a map or a set."""
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
            return compile_skip_function(found[part], self._coders)
        except UnknownCoder:
            return None
