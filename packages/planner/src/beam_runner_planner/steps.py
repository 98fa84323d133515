"""Steps of fusion: single transforms that run, and the edges by which data enters and leaves stages."""

from __future__ import annotations

import attrs
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.side_inputs import find_main_input, get_side_inputs

IMPULSE_BUFFER = b"impulse"


@attrs.define(eq=False)
class Step:
    """Transform that runs in a stage. Composite transforms are no steps.

    Attributes:
        main: the PCollection that the step processes; None if the step has no input.
        sides: the PCollections that the step reads as side inputs.
        begins: whether the step must be the first of its stage.
    """

    transform: _protos.PTransform
    main: str | None = attrs.field(init=False)
    sides: frozenset[str] = attrs.field(init=False)
    begins: bool = False

    def __attrs_post_init__(self) -> None:
        transform = self.transform
        self.main = find_main_input(transform)
        self.sides = frozenset(transform.inputs[tag] for tag in get_side_inputs(transform))

    @property
    def urn(self) -> str:
        """The URN of the transform."""
        urn: str = self.transform.spec.urn
        return urn

    @property
    def name(self) -> str:
        """The full name of the transform."""
        name: str = self.transform.unique_name
        return name

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output PCollections of the transform."""
        return tuple(dict.fromkeys(self.transform.outputs.values()))

    @property
    def buffer(self) -> bytes:
        """The id of the buffer that the edge reads or writes."""
        buffer: bytes = self.transform.spec.payload
        return buffer

    @property
    def reads_buffer(self) -> bool:
        """Whether the step is an edge by which data enters a stage."""
        return self.urn == transform_urns.DATA_SOURCE

    @property
    def writes_buffer(self) -> bool:
        """Whether the step is an edge by which data leaves a stage."""
        return self.urn == transform_urns.DATA_SINK


def buffer_id(kind: str, name: str) -> bytes:
    """Returns the id of the buffer of a kind (see `graph`) for a PCollection or a transform."""
    return f"{kind}:{name}".encode()


def create_buffer_source(name: str, buffer: bytes, pcollection_id: str) -> Step:
    """Returns an edge that reads a buffer into a PCollection."""
    spec = _protos.FunctionSpec(urn=transform_urns.DATA_SOURCE, payload=buffer)
    return Step(_protos.PTransform(unique_name=name, spec=spec, outputs={"out": pcollection_id}))


def create_buffer_sink(name: str, buffer: bytes, pcollection_id: str) -> Step:
    """Returns an edge that writes a PCollection into a buffer."""
    spec = _protos.FunctionSpec(urn=transform_urns.DATA_SINK, payload=buffer)
    return Step(_protos.PTransform(unique_name=name, spec=spec, inputs={"in": pcollection_id}))
