"""What the phases of fusion share: Beam's context, in time that is linear in the pipeline's size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.sdks import heeds_prefix


class Context(translations.TransformContext):
    """Beam's context; coders are found by their content and names by counting on.

    Args:
        components: of the pipeline; phases change them.
        known_runner_urns: the transforms that are no SDK's.
    """

    def __init__(self, components: _protos.Components, known_runner_urns: frozenset[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._coder_ids = {
            coder.SerializeToString(deterministic=True): coder_id
            for coder_id, coder in components.coders.items()
        }
        self._names: set[str] = set()
        self._heeds_prefix = heeds_prefix(components)
        super().__init__(components, known_runner_urns)

    def add_or_get_coder_id(self, coder_proto: _protos.Coder, coder_prefix: str = "coder") -> str:
        """The id of an equal coder, which is added where there is none."""
        content = coder_proto.SerializeToString(deterministic=True)
        coder_id = self._coder_ids.get(content)
        if coder_id is None:
            coder_id = self._coder_ids[content] = self.new_id(self.components.coders, coder_prefix)
            self.components.coders[coder_id].CopyFrom(coder_proto)
        return coder_id

    def add_coder(self, urn: str, component_ids: list[str]) -> str:
        """The id of the coder with this URN and these components."""
        return self.add_or_get_coder_id(
            _protos.Coder(spec=_protos.FunctionSpec(urn=urn), component_coder_ids=component_ids)
        )

    def prefixed(self, coder_id: str) -> str:
        """The id of the coder with a length prefix around it, if it has none itself and SDKs heed it."""
        coder = self.components.coders[coder_id]
        if coder.spec.urn == coder_urns.LENGTH_PREFIX or not self._heeds_prefix(coder):
            return coder_id
        return self.add_coder(coder_urns.LENGTH_PREFIX, [coder_id])

    def know_every_coder(self) -> None:
        """Declares all coders known, so that none is length-prefixed for the runner's sake."""
        self._known_coder_urns |= {c.spec.urn for c in self.components.coders.values()}

    def add_pcollection(self, wanted_id: str, like: _protos.PCollection, **changes: Any) -> str:
        """Adds a PCollection like another one but for some fields; its id, which is its name, too."""
        pcollections = self.components.pcollections
        pcollection_id = self.new_id(pcollections, wanted_id)
        pcollections[pcollection_id].CopyFrom(like)
        for field, value in {"unique_name": pcollection_id, **changes}.items():
            setattr(pcollections[pcollection_id], field, value)
        return pcollection_id

    def new_name(self, wanted: str) -> str:
        """A full name that no step has yet: the one that is wanted, or that with a number behind."""
        name = self.new_id(self._names, wanted)
        self._names.add(name)
        return name

    def new_id(self, existing: Container[str], wanted: str) -> str:
        """An id that does not exist yet: the one that is wanted, or that with a number behind."""
        found = wanted
        while found in existing:
            self._counts[wanted] += 1
            found = f"{wanted}_{self._counts[wanted]}"
        return found
