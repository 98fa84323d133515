"""Stages that Spark's readers and writers execute: plans of these stages, and checks of the stages'
inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.window_fns import GlobalWindows
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.plan import TablePlan, TruncationPlan
from beam_runner_planner.table_specs import InvalidTableSpec, StreamSource, TableSource, TableTarget
from beam_runner_planner.windowing import convert_window_fn

_KINDS = {spark_urns.READ: TableSource, spark_urns.READ_STREAM: StreamSource}


def plan_table_stage(
    transforms: Collection[_protos.PTransform], components: _protos.Components
) -> TablePlan | None:
    """Returns the read or write that a stage consists of; None for any other stage.

    Raises:
        InvalidPipeline: the payload is invalid, or the inputs or outputs differ from the expected
            inputs or outputs.
    """
    found = next((t for t in transforms if t.spec.urn in spark_urns.ALL), None)
    if found is None:
        return None
    payload = found.spec.payload
    kind = _KINDS.get(found.spec.urn, TableTarget)
    try:
        kind.from_payload(payload)
    except InvalidTableSpec as error:
        raise InvalidPipeline(f"the transform {found.unique_name!r}: {error}") from error
    (output,) = found.outputs.values()
    if found.spec.urn == spark_urns.READ_STREAM:
        _check_stream_read(found, components)
    elif found.spec.urn == spark_urns.PUBLISH:
        _check_pubsub_write(found, components)
    for pcollection_id in (*found.inputs.values(), output):
        _check_bytes_in_global_window(
            found.unique_name, components.pcollections[pcollection_id], components
        )
    return TablePlan(found.spec.urn, payload, output)


def plan_table_drain(table: TablePlan) -> TruncationPlan | None:
    """Returns the truncation plan for a table read: a drain drops the pending work of a stream, and
    keeps all other pending work.
    """
    is_stream = table.urn == spark_urns.READ_STREAM
    return TruncationPlan(None, endless=True) if is_stream else None


def check_table_buffers(
    name: str, source: str | None, outputs: Iterable[str], buffers: Mapping[str, BufferPlan]
) -> None:
    """Raises an error if the input or output of a Spark stage isn't a plain stored PCollection.

    Args:
        source: the buffer that the stage reads; None for an impulse.

    Raises:
        UnsupportedPipeline: the transform's input or output is grouped, redistributed or a side
            input.
    """
    edges = [*outputs, *(() if source is None else (source,))]
    if any(buffers[edge].kind is not BufferKind.STORED or buffers[edge].windows for edge in edges):
        raise UnsupportedPipeline(
            [
                "a Spark table whose rows are redistributed, grouped or a side input"
                f" without a transform between (in {name!r})"
            ]
        )


def _check_stream_read(read: _protos.PTransform, components: _protos.Components) -> None:
    (given,), (output,) = read.inputs.values(), read.outputs.values()
    if components.pcollections[output].is_bounded != _protos.IsBounded.UNBOUNDED:
        raise InvalidPipeline(
            f"the transform {read.unique_name!r} reads a stream, but its output is"
            " marked as bounded"
        )
    # Accept only an Impulse as input, because the server interprets any other element as a position
    # in Spark's data.
    impulses = (t for t in components.transforms.values() if t.spec.urn == transform_urns.IMPULSE)
    if not any(given in impulse.outputs.values() for impulse in impulses):
        raise InvalidPipeline(
            f"the transform {read.unique_name!r} reads a stream, but its input isn't an Impulse"
        )


def _check_pubsub_write(publish: _protos.PTransform, components: _protos.Components) -> None:
    (given,) = publish.inputs.values()
    # Accept only the output of STAGE as input, because the server interprets any other element as
    # file names, and would move these files.
    stages = (t for t in components.transforms.values() if t.spec.urn == spark_urns.STAGE)
    made = (t.spec.payload for t in stages if given in t.outputs.values())
    if publish.spec.payload not in made:
        raise InvalidPipeline(
            f"the transform {publish.unique_name!r} publishes written files, but its"
            " input isn't an output of the transform that writes the same files"
        )


def _check_bytes_in_global_window(
    name: str, pcollection: _protos.PCollection, components: _protos.Components
) -> None:
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    coder = components.coders[pcollection.coder_id].spec.urn
    is_global = isinstance(convert_window_fn(strategy.window_fn), GlobalWindows)
    if coder != coder_urns.BYTES or not is_global:
        raise InvalidPipeline(
            f"the transform {name!r} must have inputs and outputs of bytes in the"
            f" global window, but {pcollection.unique_name!r} differs"
        )
