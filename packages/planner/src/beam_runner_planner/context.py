"""Shared state of the phases of fusion: Beam's context, with lookups that keep fusion linear in the pipeline's size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_urns import coders as coder_urns

from beam_runner_planner import _protos
from beam_runner_planner.sdks import create_length_prefix_predicate


class FusionContext(translations.TransformContext):
    """Beam's translation context, which finds equal coders by content and makes unique names by
    counting.

    Args:
        components: the pipeline's components, which the phases of the translation change.
        known_runner_urns: the URNs of transforms that the runner executes without an SDK.
    """

    def __init__(self, components: _protos.Components, known_runner_urns: frozenset[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._coder_ids = {
            coder.SerializeToString(deterministic=True): coder_id
            for coder_id, coder in components.coders.items()
        }
        self._names: set[str] = set()
        self._heeds_prefix = create_length_prefix_predicate(components)
        super().__init__(components, known_runner_urns)

    def get_or_add_coder_id(self, coder_proto: _protos.Coder, coder_prefix: str = "coder") -> str:
        """Returns the id of an equal coder, and adds the coder if no equal coder exists."""
        content = coder_proto.SerializeToString(deterministic=True)
        coder_id = self._coder_ids.get(content)
        if coder_id is None:
            coder_id = self._coder_ids[content] = self.create_unique_id(
                self.components.coders, coder_prefix
            )
            self.components.coders[coder_id].CopyFrom(coder_proto)
        return coder_id

    def add_coder(self, urn: str, component_ids: list[str]) -> str:
        """Returns the id of the coder with this URN and these component coders."""
        return self.get_or_add_coder_id(
            _protos.Coder(spec=_protos.FunctionSpec(urn=urn), component_coder_ids=component_ids)
        )

    def add_length_prefixed_coder(self, coder_id: str) -> str:
        """Returns the id of the length-prefixed coder, or the same id if the coder has a prefix or
        SDKs ignore prefixes.
        """
        coder = self.components.coders[coder_id]
        if coder.spec.urn == coder_urns.LENGTH_PREFIX or not self._heeds_prefix(coder):
            return coder_id
        return self.add_coder(coder_urns.LENGTH_PREFIX, [coder_id])

    def mark_all_coders_known(self) -> None:
        """Declares that the runner knows all coders, so that fusion adds no length prefixes for the runner."""
        self._known_coder_urns |= {c.spec.urn for c in self.components.coders.values()}

    def add_pcollection(self, wanted_id: str, like: _protos.PCollection, **changes: Any) -> str:
        """Adds a copy of a PCollection with some fields changed; returns the id of the copy, which
        is also its name.
        """
        pcollections = self.components.pcollections
        pcollection_id = self.create_unique_id(pcollections, wanted_id)
        pcollections[pcollection_id].CopyFrom(like)
        for field, value in {"unique_name": pcollection_id, **changes}.items():
            setattr(pcollections[pcollection_id], field, value)
        return pcollection_id

    def create_unique_step_name(self, wanted: str) -> str:
        """Returns a full name that no step has: the requested name, with a number if another step has the name."""
        name = self.create_unique_id(self._names, wanted)
        self._names.add(name)
        return name

    def create_unique_id(self, existing: Container[str], wanted: str) -> str:
        """Returns an unused id: the requested id, with a number if the id is in use."""
        found = wanted
        while found in existing:
            self._counts[wanted] += 1
            found = f"{wanted}_{self._counts[wanted]}"
        return found
