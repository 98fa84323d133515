"""Description of a pipeline for display: nested steps, the PCollections between them, and their environments."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class StepDescription:
    """A transform of a pipeline, composite or not.

    Attributes:
        name: the full name, with a `/` between the names of composites.
        parent: the id of the enclosing composite, or empty.
        inputs, outputs: the ids of PCollections by tag.
        side_inputs: the tags of `inputs` that are side inputs.
        display: the display data of the transform, as labels and texts.
    """

    transform_id: str
    name: str
    urn: str = ""
    parent: str = ""
    subtransforms: tuple[str, ...] = ()
    inputs: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    side_inputs: frozenset[str] = frozenset()
    environment_id: str = ""
    display: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class PCollectionDescription:
    """A PCollection: descriptions of its coder and its windows, and whether it is bounded."""

    name: str
    coder: str
    windows: str
    bounded: bool


@attrs.frozen
class EnvironmentDescription:
    """The environment of user code: its URN, and the image, command or address."""

    urn: str
    details: str


@attrs.frozen
class PipelineDescription:
    """A pipeline's steps, PCollections and environments by id. `roots` are the outermost steps."""

    roots: tuple[str, ...]
    steps: Mapping[str, StepDescription]
    pcollections: Mapping[str, PCollectionDescription]
    environments: Mapping[str, EnvironmentDescription]
