"""Transfer of the elements and timers of one SDK bundle: input to the SDK, and output to the runner.

The bundle's thread does both: it sends input while the SDK accepts messages, and otherwise writes
the SDK's output to the runner. So a deadlock between the two directions is impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_model.chunks import TimerChunk

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle import ReceivedData, SdkBundle
from beam_runner_worker.fnapi.chunking import CHUNK_BYTES, Chunker
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import SdkStagePlan
from beam_runner_worker.fnapi.keyed_chunking import create_chunker
from beam_runner_worker.fnapi.messages import DataChunk, create_input_messages
from beam_runner_worker.fnapi.timers import FamilyId, TimerReader, create_timer_messages
from beam_runner_worker.limits import check_chunk_size
from beam_runner_worker.ports import OutputPort


class BundleTransfer:
    """Transfer of the elements and timers of one SDK bundle.

    The transfer ends when all outputs and all timer families have ended, and the SDK has responded.

    Args:
        outputs: ports of all outputs, by transform id.
    """

    def __init__(
        self,
        plan: SdkStagePlan,
        connection: SdkConnection,
        bundle: SdkBundle,
        outputs: Mapping[str, OutputPort],
    ) -> None:
        self._plan = plan
        self._connection = connection
        self._bundle = bundle
        self._outputs = outputs
        self._chunkers: dict[str, Chunker] = {
            edge.transform_id: create_chunker(edge, plan.edges[edge.transform_id])
            for edge in plan.spec.outputs
        }
        self._timers = TimerReader(plan.stateful.timers, plan.spec.title)
        self._open: set[str | FamilyId] = {*self._chunkers, *plan.stateful.timers}
        self._cut_short = False

    def transfer_bundle(self, inputs: Iterable[DataChunk]) -> beam_fn_api_pb2.InstructionResponse:
        """Sends all input, writes all output to the runner, sets all timers, and returns the SDK's
        response.

        The method doesn't read input that a split removed from the bundle, or input after the
        response. Exceptions of the inputs, ports or state propagate unchanged.

        Raises:
            HarnessError: the SDK is lost, or violated the protocol.
            BundleError: An output element is too large.
        """
        try:
            self._send_inputs(inputs)
        finally:
            # Always send the end of input, because the SDK must not wait for input forever.
            if self._bundle.response is None:
                self._send_end_of_input()
        return self._finish_outputs()

    def accepts_more_input(self) -> bool:
        """Returns True if the following input can be sent in another SDK bundle; False if a split
        removed the following input.

        Call this method only after the end of the bundle, when no split is pending.

        Raises:
            HarnessError: The SDK responded before the runner had sent the complete input.
        """
        stop = self._bundle.stop
        if self._cut_short and (stop is None or self._bundle.elements < stop):
            raise HarnessError(
                f"the SDK finished a bundle of the stage {self._plan.spec.title!r}"
                " before it had received all input"
            )
        return not self._cut_short

    def _send_inputs(self, inputs: Iterable[DataChunk]) -> None:
        large = self._bundle.state.groups if self._plan.large_groups else None
        for message in create_input_messages(inputs, self._plan.input, large):
            if isinstance(message, TimerChunk):
                self._bundle.record_timers(message.timers)
                for timers in create_timer_messages(message):
                    timers.instruction_id = self._bundle.instruction_id
                    self._send_message(beam_fn_api_pb2.Elements(timers=[timers]), 0)
            else:
                self._bundle.first_data = self._bundle.first_data or message.data
                data = _create_data(self._plan, self._bundle, data=message.data)
                self._send_message(beam_fn_api_pb2.Elements(data=[data]), message.count)
            if self._is_input_complete():
                self._cut_short = True
                return

    def _send_message(self, elements: beam_fn_api_pb2.Elements, count: int) -> None:
        """Sends a message to the SDK. Until the SDK accepts the message, the method writes the SDK's
        output to the runner.
        """
        self._write_received_data(self._bundle.poll_received_data())
        while not self._bundle.has_capacity() and not self._is_input_complete():
            self._write_received_data(self._bundle.wait_for_work(None, for_room=True))
        if not self._is_input_complete():
            self._connection.send_elements(self._bundle, elements, count)

    def _send_end_of_input(self) -> None:
        self._connection.send_elements(
            self._bundle, create_end_of_input(self._plan, self._bundle), 0
        )

    def _is_input_complete(self) -> bool:
        return self._bundle.response is not None or self._bundle.is_input_complete()

    def _finish_outputs(self) -> beam_fn_api_pb2.InstructionResponse:
        """Writes the remaining output until all outputs have ended and the SDK has responded, or
        until the SDK responds with an error.
        """
        while True:
            response = self._bundle.response
            if response is not None and (response.error or not self._open):
                self._bundle.raise_failure()
                return response
            self._write_received_data(self._bundle.wait_for_work(response, for_room=False))

    def _write_received_data(self, received: list[ReceivedData]) -> None:
        for part in received:
            if part.family is None:
                self._write_data(part)
                continue
            family = (part.transform_id, part.family)
            for timer in self._timers.read_timers(family, part.data, part.is_last):
                self._bundle.state.set_timer(timer)
            if part.is_last:
                self._open.discard(family)

    def _write_data(self, part: ReceivedData) -> None:
        name = self._plan.spec.title
        chunker = self._chunkers.get(part.transform_id)
        if chunker is None:
            raise HarnessError(
                f"the SDK sent data for the unknown transform {part.transform_id!r} in the "
                f"stage {name!r}"
            )
        port = self._outputs[part.transform_id]
        for chunk in chunker.split_chunks(part.data):
            check_chunk_size(chunk, CHUNK_BYTES, self._plan.find_writer(part.transform_id))
            port.write(chunk)
        if part.is_last:
            if chunker.incomplete_bytes:
                raise HarnessError(
                    f"the data that the SDK sent for {part.transform_id!r} in the stage"
                    f" {name!r} is truncated within an element"
                )
            self._open.discard(part.transform_id)


def create_end_of_input(plan: SdkStagePlan, bundle: SdkBundle) -> beam_fn_api_pb2.Elements:
    """Returns one message that ends the input and all timer families of a bundle.

    Sending all ends in one message is necessary, because the Go SDK must have all data before the first end arrives.
    """
    timers = [
        beam_fn_api_pb2.Elements.Timers(
            instruction_id=bundle.instruction_id,
            transform_id=transform_id,
            timer_family_id=family,
            is_last=(transform_id, family) not in plan.stateful.families_without_end,
        )
        for transform_id, family in plan.stateful.timers
    ]
    end = _create_data(plan, bundle, is_last=True)
    return beam_fn_api_pb2.Elements(data=[end], timers=timers)


def _create_data(
    plan: SdkStagePlan, bundle: SdkBundle, **fields: bytes | bool
) -> beam_fn_api_pb2.Elements.Data:
    return beam_fn_api_pb2.Elements.Data(
        instruction_id=bundle.instruction_id,
        transform_id=plan.spec.input.transform_id,
        **fields,
    )
