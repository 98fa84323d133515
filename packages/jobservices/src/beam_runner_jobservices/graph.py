"""The structure of a submitted pipeline, as records."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class TransformNode:
    """A transform with the ids that it refers to. `payload_coder_ids` and `side_input_tags` come from its payload."""

    name: str
    subtransforms: tuple[str, ...] = ()
    inputs: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    environment_id: str = ""
    payload_coder_ids: tuple[str, ...] = ()
    side_input_tags: tuple[str, ...] = ()


@attrs.frozen
class PCollectionNode:
    """A PCollection: its coder and windowing strategy."""

    coder_id: str
    windowing_strategy_id: str


@attrs.frozen
class WindowingNode:
    """A windowing strategy: its window coder, and its environment or ''."""

    window_coder_id: str
    environment_id: str


@attrs.frozen
class PipelineGraph:
    """The components of a pipeline by id; `coders` maps to the ids of component coders."""

    roots: tuple[str, ...]
    transforms: Mapping[str, TransformNode]
    pcollections: Mapping[str, PCollectionNode]
    windowings: Mapping[str, WindowingNode]
    coders: Mapping[str, tuple[str, ...]]
    environments: frozenset[str]
