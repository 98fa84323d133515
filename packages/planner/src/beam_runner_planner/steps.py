"""What fusion works on: single transforms that run, and the edges by which data leaves and enters stages."""

from __future__ import annotations

import attrs
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.side_inputs import main_input, side_inputs_of

IMPULSE_BUFFER = b"impulse"


@attrs.define(eq=False)
class Step:
    """A transform that runs.

    Attributes:
        transform: itself.
        main: the PCollection that it processes; None if it begins with nothing.
        sides: the PCollections that it reads as side inputs.
        begins: whether it must be the first of its stage.
    """

    transform: _protos.PTransform
    main: str | None = attrs.field(init=False)
    sides: frozenset[str] = attrs.field(init=False)
    begins: bool = False

    def __attrs_post_init__(self) -> None:
        transform = self.transform
        self.main = main_input(transform)
        self.sides = frozenset(transform.inputs[tag] for tag in side_inputs_of(transform))

    @property
    def urn(self) -> str:
        """The kind of transform."""
        urn: str = self.transform.spec.urn
        return urn

    @property
    def name(self) -> str:
        """The transform's full name."""
        name: str = self.transform.unique_name
        return name

    @property
    def outputs(self) -> tuple[str, ...]:
        """The PCollections that it makes."""
        return tuple(dict.fromkeys(self.transform.outputs.values()))

    @property
    def buffer(self) -> bytes:
        """Of an edge: the buffer that it reads or writes."""
        buffer: bytes = self.transform.spec.payload
        return buffer

    @property
    def reads_buffer(self) -> bool:
        """Whether it is an edge by which data enters a stage."""
        return self.urn == transform_urns.DATA_SOURCE

    @property
    def writes_buffer(self) -> bool:
        """Whether it is an edge by which data leaves a stage."""
        return self.urn == transform_urns.DATA_SINK


def buffer_id(kind: str, name: str) -> bytes:
    """The buffer of a kind (see ``graph``) that belongs to a PCollection or a transform."""
    return f"{kind}:{name}".encode()


def source(name: str, buffer: bytes, pcollection_id: str) -> Step:
    """An edge: what is in a buffer becomes a PCollection."""
    spec = _protos.FunctionSpec(urn=transform_urns.DATA_SOURCE, payload=buffer)
    return Step(_protos.PTransform(unique_name=name, spec=spec, outputs={"out": pcollection_id}))


def sink(name: str, buffer: bytes, pcollection_id: str) -> Step:
    """An edge: a PCollection is put into a buffer."""
    spec = _protos.FunctionSpec(urn=transform_urns.DATA_SINK, payload=buffer)
    return Step(_protos.PTransform(unique_name=name, spec=spec, inputs={"in": pcollection_id}))
