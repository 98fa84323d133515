"""Custom merging windows: the stage that asks an SDK how the windows of a key merge.

The SDK answers with the Beam transform ``beam:transform:merge_windows:v1``. The input of this
transform is a nonce and windows. The output is the nonce, the windows that don't merge, and each
merged window with the original windows. The transform is the only one of a stage, so every harness
can run it.
"""

from __future__ import annotations

from beam_runner_model.buffers import MergingPlan
from beam_runner_model.stages import HarnessStage, InputEdge, InputKind, OutputEdge, OutputKind
from beam_runner_model.varints import encode_varint
from beam_runner_model.window_fns import OpaqueWindows
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import python_sdk
from beam_runner_urns import transforms as transform_urns
from beam_runner_urns import windows as window_urns

from beam_runner_planner import _protos
from beam_runner_planner.environments import ResolvedEnvironment
from beam_runner_planner.windowing import convert_window_fn

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
_READ, _MERGE, _WRITE = "read", "merge", "write"
_ASKED, _ANSWERED = "asked", "answered"
_GLOBAL = "global"


def plan_window_merging(
    stage_id: str,
    full_name: str,
    strategy: _protos.WindowingStrategy,
    components: _protos.Components,
    environments: dict[str, ResolvedEnvironment],
) -> MergingPlan | None:
    """Returns the plan for merging the windows of a strategy; None if the windows don't merge, or
    if the engine can merge the windows itself.

    Args:
        stage_id: the id of the merging stage, unique in the job.
        full_name: the name that errors of the window function show.
        strategy: a strategy whose windows are readable.
        environments: the SDK environments by id; at least one.
    """
    merges = strategy.merge_status == _protos.MergeStatus.NEEDS_MERGE
    if not merges or not isinstance(convert_window_fn(strategy.window_fn), OpaqueWindows):
        return None
    environment_id = strategy.environment_id or next(iter(environments))
    descriptor = _protos.ProcessBundleDescriptor(id=stage_id)
    environment = components.environments[environment_id]
    descriptor.environments[environment_id].CopyFrom(environment)
    _add_coders(descriptor, strategy.window_coder_id, components)
    _add_windowing_strategy(descriptor, environment_id)
    _add_transforms(descriptor, full_name, strategy.window_fn)
    spec = HarnessStage(
        stage_id=stage_id,
        name=full_name,
        environment_id=environment_id,
        descriptor=descriptor.SerializeToString(deterministic=True),
        input=InputEdge(_READ, InputKind.ELEMENTS),
        outputs=(OutputEdge(_WRITE, OutputKind.ELEMENTS),),
    )
    return MergingPlan(spec, environments[environment_id].embedded)


def _add_coders(
    descriptor: _protos.ProcessBundleDescriptor, window_id: str, components: _protos.Components
) -> None:
    waiting = [window_id]
    while waiting:
        coder_id = waiting.pop()
        if coder_id not in descriptor.coders:
            descriptor.coders[coder_id].CopyFrom(components.coders[coder_id])
            waiting += components.coders[coder_id].component_coder_ids

    def add_coder(urn: str, *parts: str) -> str:
        coder_id = f"merging {urn} of {', '.join(parts)}"
        descriptor.coders[coder_id].spec.urn = urn
        descriptor.coders[coder_id].component_coder_ids[:] = parts
        return coder_id

    descriptor.coders[_GLOBAL].spec.urn = coder_urns.GLOBAL_WINDOW
    nonce = add_coder(coder_urns.BYTES)
    windows = add_coder(coder_urns.ITERABLE, window_id)
    merged = add_coder(coder_urns.ITERABLE, add_coder(coder_urns.KV, window_id, windows))
    for pcollection_id, coder_id in (
        (_ASKED, add_coder(coder_urns.KV, nonce, windows)),
        (_ANSWERED, add_coder(coder_urns.KV, nonce, add_coder(coder_urns.KV, windows, merged))),
    ):
        descriptor.pcollections[pcollection_id].CopyFrom(
            _protos.PCollection(
                unique_name=pcollection_id,
                coder_id=coder_id,
                is_bounded=_protos.IsBounded.BOUNDED,
                windowing_strategy_id=_GLOBAL,
            )
        )
        windowed = descriptor.coders[_get_edge_coder_id(pcollection_id)]
        windowed.spec.urn = coder_urns.WINDOWED_VALUE
        windowed.component_coder_ids[:] = (coder_id, _GLOBAL)


def _get_edge_coder_id(pcollection_id: str) -> str:
    return f"windowed {pcollection_id}"


def _add_windowing_strategy(
    descriptor: _protos.ProcessBundleDescriptor, environment_id: str
) -> None:
    descriptor.windowing_strategies[_GLOBAL].CopyFrom(
        _protos.WindowingStrategy(
            window_fn=_protos.FunctionSpec(urn=window_urns.GLOBAL_WINDOWS),
            merge_status=_protos.MergeStatus.NON_MERGING,
            window_coder_id=_GLOBAL,
            trigger=_protos.Trigger(default=_protos.Trigger.Default()),
            accumulation_mode=_protos.AccumulationMode.DISCARDING,
            output_time=_protos.OutputTime.END_OF_WINDOW,
            closing_behavior=_protos.ClosingBehavior.EMIT_IF_NONEMPTY,
            on_time_behavior=_protos.OnTimeBehavior.FIRE_IF_NONEMPTY,
            environment_id=environment_id,
        )
    )


def _add_transforms(
    descriptor: _protos.ProcessBundleDescriptor, full_name: str, spec: _protos.FunctionSpec
) -> None:
    def create_grpc_port(pcollection_id: str) -> bytes:
        return _protos.RemoteGrpcPort(
            coder_id=_get_edge_coder_id(pcollection_id)
        ).SerializeToString()

    merge = _wrap_for_python_sdk(spec).SerializeToString(deterministic=True)
    for transform_id, name, urn, payload, reads, writes in (
        (_READ, _READ, transform_urns.DATA_SOURCE, create_grpc_port(_ASKED), None, _ASKED),
        (_MERGE, full_name, transform_urns.MERGE_WINDOWS, merge, _ASKED, _ANSWERED),
        (_WRITE, _WRITE, transform_urns.DATA_SINK, create_grpc_port(_ANSWERED), _ANSWERED, None),
    ):
        transform = descriptor.transforms[transform_id]
        transform.unique_name = name
        transform.spec.urn = urn
        transform.spec.payload = payload
        if reads is not None:
            transform.inputs["in"] = reads
        if writes is not None:
            transform.outputs["out"] = writes


def _wrap_for_python_sdk(spec: _protos.FunctionSpec) -> _protos.FunctionSpec:
    """Returns a window function that Python's SDK can load when it merges windows.

    As of Beam 2.77, Python's SDK unpickles the whole message around the pickled function, although
    the message begins with the function's length. The SDK's base64 decoder skips bytes that are not
    base64, so unpickling works only for some lengths. White space after the function doesn't change
    the function in any version. This function adds white space until the bytes of the length are
    not base64.
    """
    if spec.urn != python_sdk.PICKLED_WINDOWFN:
        return spec
    pickled = _protos.BytesValue.FromString(spec.payload).value
    size = len(pickled)
    while not _BASE64.isdisjoint(encode_varint(size)):
        size += 1
    padded = _protos.BytesValue(value=pickled.ljust(size, b"\n"))
    return _protos.FunctionSpec(urn=spec.urn, payload=padded.SerializeToString())
