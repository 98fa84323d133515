"""The one adapter to Beam's own pipeline translations: fusion, combiner lifting, SDF expansion.

``apache_beam.runners.portability.fn_api_runner.translations`` is semi-internal, so nothing else of
this package touches it, and the range of Beam versions is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation.rejection import RESHUFFLES

IMPULSE_BUFFER: bytes = translations.IMPULSE_BUFFER
_KNOWN_URNS = RESHUFFLES | {transform_urns.FLATTEN, transform_urns.GROUP_BY_KEY}
_PAIR = 2


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
    """

    components: _protos.Components
    stages: tuple[FusedStage, ...]
    edge_coders: dict[str, str]


def fuse(pipeline: _protos.Pipeline, *, embedded: bool) -> FusedPipeline:
    """Fuses a pipeline; does not change the one given.

    Args:
        pipeline: a whole pipeline.
        embedded: whether every environment is embedded: then the same Python code writes and reads
            every coder, and nothing need be length-prefixed for the runner's sake.
    """
    copy = _protos.Pipeline()
    copy.CopyFrom(pipeline)
    context, stages = translations.create_and_optimize_stages(
        copy, phases=_phases(embedded), known_runner_urns=_KNOWN_URNS
    )
    return FusedPipeline(
        components=context.components,
        stages=tuple(_fused_stage(stage) for stage in stages),
        edge_coders=dict(context.data_channel_coders),
    )


def _phases(embedded: bool) -> list[Callable[[Any, Any], Iterable[Any]]]:
    return [
        _know_every_coder if embedded else _keep_stages,
        translations.annotate_downstream_side_inputs,
        translations.annotate_stateful_dofns_as_roots,
        translations.fix_side_input_pcoll_coders,
        translations.pack_combiners,
        translations.lift_combiners,
        translations.expand_sdf,
        _keep_stages if embedded else _prefix_keys_and_values,
        _expand_reshuffle,
        translations.expand_gbk,
        translations.sink_flattens,
        _empty_flattens_without_inputs,
        translations.greedily_fuse,
        translations.read_to_impulse,
        translations.impulse_to_input,
        translations.sort_stages,
        translations.add_impulse_to_dangling_transforms,
        translations.populate_data_channel_coders,
    ]


def _keep_stages(stages: Iterable[Any], context: Any) -> Iterable[Any]:
    return stages


def _know_every_coder(stages: Iterable[Any], context: Any) -> Iterable[Any]:
    """Declares all coders known, so that the phases to come length-prefix none of them."""
    context._known_coder_urns |= {c.spec.urn for c in context.components.coders.values()}
    return stages


def _prefix_keys_and_values(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Length-prefixes keys and values around every GroupByKey, so that elements are cut by length.

    A runner that has only bytes can cut these coders without knowing any other.
    """
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn == transform_urns.GROUP_BY_KEY:
            for pcollection_id in (*transform.inputs.values(), *transform.outputs.values()):
                _prefix_pair(context, context.components.pcollections[pcollection_id])
        yield stage


def _prefix_pair(context: Any, pcollection: _protos.PCollection) -> None:
    coder = context.components.coders[pcollection.coder_id]
    if coder.spec.urn != coder_urns.KV or len(coder.component_coder_ids) != _PAIR:
        return
    key_id, value_id = coder.component_coder_ids
    value = context.components.coders[value_id]
    if value.spec.urn == coder_urns.ITERABLE:
        prefixed_value_id = _add_coder(
            context, value.spec.urn, [_prefixed(context, value.component_coder_ids[0])]
        )
    else:
        prefixed_value_id = _prefixed(context, value_id)
    pcollection.coder_id = _add_coder(
        context, coder_urns.KV, [_prefixed(context, key_id), prefixed_value_id]
    )


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
