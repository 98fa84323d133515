"""Runs the bundles of one stage on an SDK harness: inputs out, outputs in, response at the end.

A bundle is run by the thread that asks for it, which takes turns: it sends while the SDK takes,
and writes to the host what the SDK has given, so that neither waits for the other for ever.

Splits and finalization belong here too, as further instructions about the running bundle
(:meth:`SdkConnection.ask`); they come with a coordinator that wants them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle import RunningBundle
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.cutting import Cutter, cutter_for
from beam_runner_worker.fnapi.descriptors import StagePlan
from beam_runner_worker.fnapi.failures import bundle_failed
from beam_runner_worker.fnapi.groups import data_messages
from beam_runner_worker.fnapi.metrics import ShortIds
from beam_runner_worker.fnapi.residuals import resumed
from beam_runner_worker.fnapi.side_inputs import SideInputPages
from beam_runner_worker.ports import OutputPort, SideInputReader
from beam_runner_worker.records import BundleResult, InputChunk, MonitoringInfo

_PROGRESS_SECONDS = 5.0


class Sdk(Protocol):
    """An SDK harness that is there, with what is known of it."""

    connection: SdkConnection
    short_ids: ShortIds


class SdkSource(Protocol):
    """Gives a stage the SDK harness to run a bundle on."""

    def sdk(self) -> Sdk:
        """A connected SDK harness; a new one if the last was lost.

        Raises:
            HarnessError: none came.
        """


class FnApiStage:
    """One stage on the SDK harnesses of one environment.

    Bundles may run at the same time, each in a thread of its own.

    Args:
        plan: the stage.
        side_inputs: where its side inputs are.
        source: where SDK harnesses come from.
    """

    def __init__(self, plan: StagePlan, side_inputs: SideInputReader, source: SdkSource) -> None:
        self._plan = plan
        self._side_inputs = side_inputs
        self._source = source
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Sdk, RunningBundle]] = {}

    def process_bundle(
        self, bundle_id: str, inputs: Iterable[InputChunk], outputs: Mapping[str, OutputPort]
    ) -> BundleResult:
        """Processes one bundle; see :class:`beam_runner_worker.ports.StageHarness`.

        What a bounded splittable DoFn leaves for later is processed in further bundles of the SDK,
        when it is due: the input is all here, so for the host it is one bundle.

        Raises:
            BundleFailed: user code or the SDK raised.
            HarnessError: the SDK was lost, or broke the protocol.
        """
        metrics: list[MonitoringInfo] = []
        requires_finalization = False
        for number in itertools.count():
            sdk, done = self._run(f"{bundle_id}/{number}" if number else bundle_id, inputs, outputs)
            metrics += sdk.short_ids.resolve(done.monitoring_data, done.monitoring_infos)
            requires_finalization |= done.requires_finalization
            if not done.residual_roots:
                return BundleResult(tuple(metrics), requires_finalization)
            inputs = resumed(done.residual_roots)
        raise AssertionError("counting does not end")

    def _run(
        self, bundle_id: str, inputs: Iterable[InputChunk], outputs: Mapping[str, OutputPort]
    ) -> tuple[Sdk, beam_fn_api_pb2.ProcessBundleResponse]:
        """Runs one bundle of the SDK's."""
        sdk = self._source.sdk()
        bundle = sdk.connection.open_bundle(
            bundle_id,
            self._plan.spec.stage_id,
            SideInputPages(self._side_inputs, self._plan.side_inputs),
        )
        with self._lock:
            self._running[bundle.instruction_id] = (sdk, bundle)
        try:
            transfer = _Transfer(self._plan, sdk.connection, bundle, outputs)
            try:
                transfer.send_all(inputs)
            finally:
                transfer.end_input()
            return sdk, self._done(transfer.finish())
        finally:
            with self._lock:
                del self._running[bundle.instruction_id]
            sdk.connection.close_bundle(bundle)

    def _done(
        self, response: beam_fn_api_pb2.InstructionResponse
    ) -> beam_fn_api_pb2.ProcessBundleResponse:
        if response.error:
            names = {
                transform_id: transform.unique_name
                for transform_id, transform in self._plan.descriptor.transforms.items()
            }
            raise bundle_failed(response.error, self._plan.spec.name, names)
        return response.process_bundle

    def progress(self) -> tuple[MonitoringInfo, ...]:
        """Metrics of the running bundles so far; empty if there is none or it has just ended."""
        with self._lock:
            running = list(self._running.values())
        return tuple(info for sdk, bundle in running for info in self._progress_of(sdk, bundle))

    def _progress_of(self, sdk: Sdk, bundle: RunningBundle) -> tuple[MonitoringInfo, ...]:
        request = beam_fn_api_pb2.InstructionRequest(
            process_bundle_progress=beam_fn_api_pb2.ProcessBundleProgressRequest(
                instruction_id=bundle.instruction_id
            )
        )
        try:
            answer = sdk.connection.ask(request, _PROGRESS_SECONDS).process_bundle_progress
            return sdk.short_ids.resolve(answer.monitoring_data, answer.monitoring_infos)
        except HarnessError:
            return ()  # The bundle's own thread tells what is wrong with the SDK.


class _Transfer:
    """The data of one bundle, in both directions."""

    def __init__(
        self,
        plan: StagePlan,
        connection: SdkConnection,
        bundle: RunningBundle,
        outputs: Mapping[str, OutputPort],
    ) -> None:
        self._spec = plan.spec
        self._connection = connection
        self._bundle = bundle
        self._outputs = outputs
        self._cutters: dict[str, Cutter] = {
            edge.transform_id: cutter_for(edge, plan.edges[edge.transform_id])
            for edge in plan.spec.outputs
        }
        self._open = set(self._cutters)

    def send_all(self, inputs: Iterable[InputChunk]) -> None:
        """Sends the inputs, and writes outputs meanwhile; stops early when the bundle failed."""
        for message in data_messages(inputs):
            self._write(self._bundle.poll())
            while not self._bundle.has_room() and not self._failed():
                self._write(self._bundle.wait(self._bundle.response, for_room=True))
            if self._failed():
                return
            self._send(beam_fn_api_pb2.Elements.Data(data=message))

    def end_input(self) -> None:
        """Tells the SDK that no more input comes, so that it never waits for any."""
        if not self._failed():
            self._send(beam_fn_api_pb2.Elements.Data(is_last=True))

    def _failed(self) -> bool:
        response = self._bundle.response
        return response is not None and bool(response.error)

    def finish(self) -> beam_fn_api_pb2.InstructionResponse:
        """Waits for all outputs and the response, or for the response that tells of an error."""
        while True:
            response = self._bundle.response
            if response is not None and (response.error or not self._open):
                return response
            self._write(self._bundle.wait(response, for_room=False))

    def _send(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        data.instruction_id = self._bundle.instruction_id
        data.transform_id = self._spec.input.transform_id
        self._connection.send(self._bundle, beam_fn_api_pb2.Elements(data=[data]))

    def _write(self, received: list[beam_fn_api_pb2.Elements.Data]) -> None:
        for data in received:
            cutter = self._cutters.get(data.transform_id)
            if cutter is None:
                raise HarnessError(
                    f"the SDK sent data for the unknown transform {data.transform_id!r} in the "
                    f"stage {self._spec.name!r}"
                )
            port = self._outputs[data.transform_id]
            for chunk in cutter.feed(data.data):
                port.write(chunk)
            if data.is_last:
                if cutter.rest:
                    raise HarnessError(
                        f"the data that the SDK sent for {data.transform_id!r} in the stage "
                        f"{self._spec.name!r} ends within an element"
                    )
                self._open.discard(data.transform_id)
