"""Ends of the elements in a stage's input, found without decoding the elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.stages import HarnessStage, InputKind, OutputEdge, OutputKind

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.fnapi.chunking import EdgeCoder, compile_edge_coder, skip_elements
from beam_runner_worker.fnapi.keyed_chunking import create_chunker


class InputElements:
    """Reader of the elements of a stage's input.

    Args:
        spec: the stage.

    Attributes:
        coder: description of the coder of an element.

    Raises:
        UnknownCoder: This coder doesn't show where an encoded element ends.
    """

    def __init__(self, spec: HarnessStage) -> None:
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
        source = spec.input.transform_id
        port = beam_fn_api_pb2.RemoteGrpcPort.FromString(descriptor.transforms[source].spec.payload)
        coders = descriptor.coders
        self._edge: EdgeCoder | None = None
        if spec.input.kind is InputKind.ELEMENTS:
            self._edge = compile_edge_coder(port.coder_id, coders, source)
        element = next(iter(coders[port.coder_id].component_coder_ids), port.coder_id)
        self.coder = _describe_coder(element, coders)

    def find_ends(self, chunk: ElementChunk) -> Sequence[int]:
        """Returns the end offset of each element in the chunk's data.

        Raises:
            ValueError: The chunk has fewer elements than it states.
        """
        if chunk.ends is not None:
            return chunk.ends
        assert self._edge is not None
        data, position, ends = bytes(chunk.data), 0, []
        for _ in range(chunk.count):
            position = skip_elements(self._edge, data, position, 1)
            ends.append(position)
        return ends

    def convert_to_output_form(
        self, data: bytes, *, keyed: bool, windows: bool
    ) -> Iterator[OutputChunk]:
        """Yields elements of the input in the form in which the upstream stage emitted them.

        Args:
            data: concatenated windowed values.
            keyed: whether the input is partitioned by key.
            windows: whether each chunk must contain a single window.

        Raises:
            ValueError: The data ends within an element.
        """
        assert self._edge is not None
        edge = OutputEdge(
            "input",
            OutputKind.KEYED if keyed else OutputKind.ELEMENTS,
            whole_elements=keyed,
            min_timestamp=True,
            windows=windows,
        )
        chunker = create_chunker(edge, self._edge)
        yield from chunker.split_chunks(data)
        if chunker.incomplete_bytes:
            raise ValueError(f"the data ends within an element of {len(data)} bytes")


def _describe_coder(coder_id: str, coders: Mapping[str, beam_runner_api_pb2.Coder]) -> str:
    """Returns the URN of a coder, with its components in parentheses."""
    coder = coders[coder_id]
    parts = ", ".join(_describe_coder(each, coders) for each in coder.component_coder_ids)
    return f"{coder.spec.urn}({parts})" if parts else str(coder.spec.urn)
