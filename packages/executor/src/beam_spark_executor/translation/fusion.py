"""The one adapter to Beam's own pipeline translations: fusion, combiner lifting, SDF expansion.

``apache_beam.runners.portability.fn_api_runner.translations`` is semi-internal, so nothing else of
this package touches it, and the range of Beam versions is pinned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import attrs
from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation import test_streams
from beam_spark_executor.translation.circles import fuse_without_circles
from beam_spark_executor.translation.rejection import RESHUFFLES
from beam_spark_executor.translation.stage_begins import begin_stages
from beam_spark_executor.translation.stateful import stateful_payload
from beam_spark_executor.translation.window_coders import make_readable

IMPULSE_BUFFER: bytes = translations.IMPULSE_BUFFER
_KNOWN_URNS = RESHUFFLES | {
    transform_urns.FLATTEN,
    transform_urns.GROUP_BY_KEY,
    transform_urns.TEST_STREAM,
}
_PAIR = 2
_BASE_DEPTH = 1000


@attrs.frozen
class FusedStage:
    """What fusion made: transforms between one data source and some data sinks.

    Attributes:
        name: the transforms' names joined.
        transforms: without the source and the sinks.
        environment_id: None if no transform inside asks for one.
        source: the data-source transform; its payload is the buffer it reads.
        sinks: the data-sink transforms; the payload of each is the buffer it writes.
    """

    name: str
    transforms: tuple[_protos.PTransform, ...]
    environment_id: str | None
    source: _protos.PTransform
    sinks: tuple[_protos.PTransform, ...]


@attrs.frozen
class FusedPipeline:
    """The outcome of fusion.

    Attributes:
        components: the pipeline's, with what fusion added.
        stages: in an order in which a stage comes after those it depends on.
        edge_coders: by PCollection id, the id of the windowed coder on a stage's edge.
        script_coders: by buffer id, that of the elements that a TestStream puts into it.
    """

    components: _protos.Components
    stages: tuple[FusedStage, ...]
    edge_coders: dict[str, str]
    script_coders: dict[str, str]


def fuse(
    pipeline: _protos.Pipeline, *, embedded: bool, pack_combiners: bool = True
) -> FusedPipeline:
    """Fuses a pipeline; does not change the one given.

    Args:
        pipeline: a whole pipeline.
        embedded: whether every environment is embedded: then the same Python code writes and reads
            every coder, and nothing need be length-prefixed for the runner's sake.
        pack_combiners: whether combines of the same PCollection become one where the user wants it.
    """
    copy = _protos.Pipeline()
    copy.CopyFrom(pipeline)
    _allow_recursion(len(copy.components.transforms))
    make_readable(copy.components)
    script_coders: dict[str, str] = {}
    context, stages = translations.create_and_optimize_stages(
        copy, phases=_phases(embedded, pack_combiners, script_coders), known_runner_urns=_KNOWN_URNS
    )
    return FusedPipeline(
        components=context.components,
        stages=tuple(_fused_stage(stage) for stage in stages),
        edge_coders=dict(context.data_channel_coders),
        script_coders=script_coders,
    )


def _allow_recursion(transforms: int) -> None:
    """Beam's phases go down a pipeline call by call, so a long one needs a deep stack.

    Python 3.11 and later have calls of Python code on no other stack than their own.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _BASE_DEPTH + 4 * transforms))


def _phases(
    embedded: bool, pack_combiners: bool, script_coders: dict[str, str]
) -> list[Callable[[Any, Any], Iterable[Any]]]:
    return [
        _know_every_coder if embedded else _keep_stages,
        translations.annotate_downstream_side_inputs,
        translations.annotate_stateful_dofns_as_roots,
        translations.fix_side_input_pcoll_coders,
        translations.pack_combiners if pack_combiners else _keep_stages,
        _lift_combiners,
        translations.expand_sdf,
        _keep_stages if embedded else _prefix_keys_and_values,
        _expand_reshuffle,
        translations.expand_gbk,
        translations.sink_flattens,
        _empty_flattens_without_inputs,
        partial(_read_scripts, script_coders),
        lambda stages, context: begin_stages(list(stages), context),
        partial(fuse_without_circles, translations.greedily_fuse),
        translations.read_to_impulse,
        translations.impulse_to_input,
        translations.sort_stages,
        translations.add_impulse_to_dangling_transforms,
        translations.populate_data_channel_coders,
    ]


def _keep_stages(stages: Iterable[Any], context: Any) -> Iterable[Any]:
    return stages


def _lift_combiners(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Combines before the shuffle, where that changes nothing.

    A stream that wants the earliest timestamp of a pane does not want that of late elements, so
    none may be combined with others before it is known which are late. Whether the SDK has lifted
    the combine already does not matter.
    """
    for stage in stages:
        if _needs_every_element(stage, context):
            yield from _group_then_combine(stage, context)
        else:
            yield from translations.lift_combiners([stage], context)


def _needs_every_element(stage: Any, context: Any) -> bool:
    transform = translations.only_transform(stage.transforms)
    if transform.spec.urn != transform_urns.COMBINE_PER_KEY:
        return False
    (pcollection_id,) = transform.inputs.values()
    pcollection = context.components.pcollections[pcollection_id]
    strategy = context.components.windowing_strategies[pcollection.windowing_strategy_id]
    unbounded: bool = pcollection.is_bounded == _protos.IsBounded.UNBOUNDED
    return unbounded and strategy.output_time == _protos.OutputTime.EARLIEST_IN_PANE


def _group_then_combine(stage: Any, context: Any) -> Iterator[Any]:
    transform = translations.only_transform(stage.transforms)
    components = context.components
    (input_id,) = transform.inputs.values()
    key_id, value_id = components.coders[
        components.pcollections[input_id].coder_id
    ].component_coder_ids
    values_id = _add_coder(context, coder_urns.ITERABLE, [value_id])
    grouped_id = f"{transform.unique_name}/Grouped"
    components.pcollections[grouped_id].CopyFrom(components.pcollections[input_id])
    components.pcollections[grouped_id].coder_id = _add_coder(
        context, coder_urns.KV, [key_id, values_id]
    )
    group = _protos.PTransform(
        unique_name=f"{transform.unique_name}/Group",
        spec=_protos.FunctionSpec(urn=transform_urns.GROUP_BY_KEY),
        inputs={"in": input_id},
        outputs={"out": grouped_id},
    )
    combine = _protos.PTransform(
        unique_name=f"{transform.unique_name}/Combine",
        spec=_protos.FunctionSpec(
            urn=transform_urns.COMBINE_GROUPED_VALUES, payload=transform.spec.payload
        ),
        inputs={"in": grouped_id},
        outputs=transform.outputs,
        environment_id=transform.environment_id,
    )
    yield _in_place_of(stage, group, parent=stage.name)
    yield _in_place_of(stage, combine, parent=stage.name)


def _in_place_of(stage: Any, transform: _protos.PTransform, parent: str | None = None) -> Any:
    """A stage of this transform that comes before and after what the given stage does."""
    return translations.Stage(
        transform.unique_name,
        [transform],
        downstream_side_inputs=stage.downstream_side_inputs,
        must_follow=stage.must_follow,
        parent=parent,
        environment=stage.environment,
    )


def _know_every_coder(stages: Iterable[Any], context: Any) -> Iterable[Any]:
    """Declares all coders known, so that the phases to come length-prefix none of them."""
    context._known_coder_urns |= {c.spec.urn for c in context.components.coders.values()}
    return stages


def _prefix_keys_and_values(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Length-prefixes keys and values where elements are cut, so that they are cut by length.

    That is before every GroupByKey and every stateful transform. A runner that has only bytes can
    cut these coders without knowing any other. Groups are read with the coders of what was grouped.
    """
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        payload = stateful_payload(transform)
        if transform.spec.urn == transform_urns.GROUP_BY_KEY:
            for pcollection_id in transform.inputs.values():
                _prefix_pair(context, context.components.pcollections[pcollection_id])
        elif payload is not None:
            (main,) = (p for tag, p in transform.inputs.items() if tag not in payload.side_inputs)
            _prefix_pair(context, context.components.pcollections[main])
            strategy_id = context.components.pcollections[main].windowing_strategy_id
            window_id = context.components.windowing_strategies[strategy_id].window_coder_id
            for family in payload.timer_family_specs.values():
                timer = context.components.coders[family.timer_family_coder_id]
                key_id, _ = timer.component_coder_ids
                family.timer_family_coder_id = _add_coder(
                    context, timer.spec.urn, [_prefixed(context, key_id), window_id]
                )
            transform.spec.payload = payload.SerializeToString(deterministic=True)
        yield stage


def _prefix_pair(context: Any, pcollection: _protos.PCollection) -> None:
    coder = context.components.coders[pcollection.coder_id]
    if coder.spec.urn != coder_urns.KV or len(coder.component_coder_ids) != _PAIR:
        return
    prefixed_ids = [_prefixed(context, part) for part in coder.component_coder_ids]
    pcollection.coder_id = _add_coder(context, coder_urns.KV, prefixed_ids)


def _prefixed(context: Any, coder_id: str) -> str:
    if context.components.coders[coder_id].spec.urn == coder_urns.LENGTH_PREFIX:
        return coder_id
    return _add_coder(context, coder_urns.LENGTH_PREFIX, [coder_id])


def _add_coder(context: Any, urn: str, component_ids: list[str]) -> str:
    added: str = context.add_or_get_coder_id(
        _protos.Coder(spec=_protos.FunctionSpec(urn=urn), component_coder_ids=component_ids)
    )
    return added


def _expand_reshuffle(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Makes of each reshuffle a write to a buffer and a read from it, as expand_gbk does of groups."""
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn not in RESHUFFLES:
            yield stage
            continue
        (output_id,) = transform.outputs.values()
        input_id = _reshuffled_input(transform)
        context.length_prefix_pcoll_coders(input_id)
        buffer = translations.create_buffer_id(transform.unique_name, kind="deal")
        write = translations.Stage(
            transform.unique_name + "/Write",
            [_edge(transform.unique_name + "/Write", transform_urns.DATA_SINK, buffer, input_id)],
            downstream_side_inputs=frozenset(),
            must_follow=stage.must_follow,
        )
        yield write
        yield translations.Stage(
            transform.unique_name + "/Read",
            [_edge(transform.unique_name + "/Read", transform_urns.DATA_SOURCE, buffer, output_id)],
            downstream_side_inputs=stage.downstream_side_inputs,
            must_follow=translations.union(frozenset([write]), stage.must_follow),
        )


def _empty_flattens_without_inputs(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Lets a Flatten of no PCollections read a buffer that nobody writes.

    Beam's phases to come would give it an impulse, whose element would pass through.
    """
    for stage in stages:
        for transform in stage.transforms:
            if transform.spec.urn == transform_urns.FLATTEN and not transform.inputs:
                buffer = translations.create_buffer_id(transform.unique_name)
                transform.spec.urn = transform_urns.DATA_SOURCE
                transform.spec.payload = buffer
        yield stage


def _read_scripts(coders: dict[str, str], stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Makes of each TestStream reads from the buffers that its script fills, one for each output.

    Args:
        coders: gets, by buffer id, the coder of the windowed values in it.
        stages: of one transform each.
        context: Beam's.
    """
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn != transform_urns.TEST_STREAM:
            yield stage
            continue
        for pcollection_id in sorted(set(transform.outputs.values())):
            buffer_id = test_streams.buffer_of(pcollection_id)
            coders[buffer_id] = _script_coder(context, transform, pcollection_id)
            name = f"{transform.unique_name}/Read/{pcollection_id}"
            source = _edge(name, transform_urns.DATA_SOURCE, buffer_id.encode(), pcollection_id)
            yield _in_place_of(stage, source)


def _script_coder(context: Any, transform: _protos.PTransform, pcollection_id: str) -> str:
    payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
    strategy_id = context.components.pcollections[pcollection_id].windowing_strategy_id
    window_coder_id = context.components.windowing_strategies[strategy_id].window_coder_id
    element_coder_id = _prefixed(context, payload.coder_id)
    return _add_coder(context, coder_urns.WINDOWED_VALUE, [element_coder_id, window_coder_id])


def _reshuffled_input(transform: _protos.PTransform) -> str:
    """The main input; the reshuffle inside an expanded SDF carries the SDF's side inputs too."""
    if len(transform.inputs) == 1:
        return next(iter(transform.inputs.values()))
    (main,) = (p for p in transform.inputs.values() if p.endswith("_split") or "_split_" in p)
    return main


def _edge(name: str, urn: str, buffer: bytes, pcollection_id: str) -> _protos.PTransform:
    edge = _protos.PTransform(unique_name=name, spec=_protos.FunctionSpec(urn=urn, payload=buffer))
    if urn == transform_urns.DATA_SOURCE:
        edge.outputs["out"] = pcollection_id
    else:
        edge.inputs["in"] = pcollection_id
    return edge


def _fused_stage(stage: Any) -> FusedStage:
    sources = [t for t in stage.transforms if t.spec.urn == transform_urns.DATA_SOURCE]
    sinks = [t for t in stage.transforms if t.spec.urn == transform_urns.DATA_SINK]
    edges = {id(t) for t in (*sources, *sinks)}
    (source,) = sources
    return FusedStage(
        name=stage.name,
        transforms=tuple(t for t in stage.transforms if id(t) not in edges),
        environment_id=stage.environment,
        source=source,
        sinks=tuple(sinks),
    )
