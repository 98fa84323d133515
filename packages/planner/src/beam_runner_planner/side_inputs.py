"""Side inputs: the transforms that read them, the windows that these transforms look up, and
whether updates must be visible.
"""

from __future__ import annotations

import base64
import bz2
import functools
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import attrs
from apache_beam.internal import pickler
from apache_beam.transforms import sideinputs
from beam_runner_model.buffers import BufferKind, BufferPlan, SideInputUse
from beam_runner_model.triggers import may_fire_early
from beam_runner_model.window_fns import GlobalWindows, OpaqueWindows
from beam_runner_urns import python_sdk as python_urns
from beam_runner_urns import transforms as transform_urns
from beam_runner_urns.payloads import PAR_DOS

from beam_runner_planner import _protos
from beam_runner_planner.windowing import convert_trigger, convert_window_fn

_SINGLETON = b"AsSingleton"
_BZ2 = b"BZh"
_HEAD_BYTES = 1 << 18
_GLOBAL_MAPPING = functools.partial(sideinputs._global_window_mapping_fn)


def get_side_inputs(transform: _protos.PTransform) -> Mapping[str, _protos.SideInput]:
    """Returns the side inputs of a transform by tag (name of the input)."""
    if transform.spec.urn not in PAR_DOS:
        return {}
    return dict(_protos.ParDoPayload.FromString(transform.spec.payload).side_inputs)


def describe_side_inputs(
    uses: Collection[SideInputUse],
    transforms: Sequence[_protos.PTransform],
    components: _protos.Components,
) -> tuple[SideInputUse, ...]:
    """Returns the side-input uses of a stage, with the properties that the scheduler needs."""
    by_name = {transform.unique_name: transform for transform in transforms}
    rewindowed = _find_rewindowed_pcollections(transforms) if uses else set()
    return tuple(
        _describe_side_input(use, by_name[use.transform_id], rewindowed, components) for use in uses
    )


def _describe_side_input(
    use: SideInputUse,
    transform: _protos.PTransform,
    rewindowed: Set[str],
    components: _protos.Components,
) -> SideInputUse:
    side = components.pcollections[transform.inputs[use.tag]]
    strategy = components.windowing_strategies[side.windowing_strategy_id]
    main = find_main_input(transform)
    mapping_fn = convert_window_fn(strategy.window_fn)
    if main in rewindowed and not isinstance(mapping_fn, GlobalWindows):
        mapping_fn = OpaqueWindows(strategy.window_fn.urn, strategy.window_fn.payload)
    main_strategy_id = components.pcollections[main].windowing_strategy_id
    endless = is_unbounded(side)
    early = endless and may_fire_early(convert_trigger(strategy.trigger))
    updated = early or (endless and strategy.allowed_lateness > 0)
    return attrs.evolve(
        use,
        mapping_fn=mapping_fn,
        by_window=endless and not isinstance(mapping_fn, GlobalWindows | OpaqueWindows),
        # Only the global window has early panes for readers. All other windows end. Beam's tests
        # expect readers to wait for the end of the window and to see all panes of the window.
        early=early and isinstance(mapping_fn, GlobalWindows),
        latest=updated and _is_singleton(get_side_inputs(transform)[use.tag]),
        retention=components.windowing_strategies[main_strategy_id].allowed_lateness,
    )


def reread_updated_side_inputs(
    uses: Iterable[SideInputUse], transforms: Iterable[_protos.PTransform]
) -> None:
    """Makes the Python SDK read side inputs that can be updated again in each bundle.

    The SDK caches a side input without limit if its window mapping function is the SDK's own
    function for the global window. The SDK doesn't recognize that function inside another function.
    """
    updating = {(use.transform_id, use.tag) for use in uses if use.early}
    for transform in transforms:
        tags = [tag for transform_id, tag in updating if transform_id == transform.unique_name]
        if not tags:
            continue
        payload = _protos.ParDoPayload.FromString(transform.spec.payload)
        for tag in tags:
            mapping_fn = payload.side_inputs[tag].window_mapping_fn
            if _is_global_mapping(mapping_fn):
                mapping_fn.payload = pickler.dumps(_GLOBAL_MAPPING)
        transform.spec.payload = payload.SerializeToString()


def _is_global_mapping(mapping_fn: _protos.FunctionSpec) -> bool:
    name = _GLOBAL_MAPPING.func.__name__.encode()
    pickled = mapping_fn.urn == python_urns.PICKLED_WINDOW_MAPPING_FN
    return pickled and contains_pickled_name(mapping_fn.payload, name)


def add_windows_to_buffers(
    buffers: Mapping[str, BufferPlan],
    readers: Iterable[tuple[str | None, Iterable[SideInputUse]]],
) -> dict[str, BufferPlan]:
    """Returns the buffers, with windows recorded for data that a stage reads window by window.

    Args:
        readers: for each stage, the buffer that it reads and its side inputs, as `describe_side_inputs`
            returns them.
    """
    waited_for = {buffer_id for buffer_id, uses in readers if any(use.by_window for use in uses)}
    return {
        buffer_id: attrs.evolve(
            buffer, windows=buffer_id in waited_for and _is_readable_by_window(buffer)
        )
        for buffer_id, buffer in buffers.items()
    }


def _is_readable_by_window(buffer: BufferPlan) -> bool:
    """Returns whether a stage may read the windows of a side input one after the other."""
    if buffer.kind is BufferKind.KEYED:
        return not buffer.bulk
    return buffer.kind in (BufferKind.STORED, BufferKind.DEALT)


def _is_singleton(side_input: _protos.SideInput) -> bool:
    """Returns whether the Python SDK presents a side input as a single value.

    Only the pickled view function shows whether a side input is a singleton. The check looks for its name in the pickle and never
    loads the pickle.
    """
    view_fn = side_input.view_fn
    return view_fn.urn == python_urns.PICKLED_VIEWFN and contains_pickled_name(
        view_fn.payload, _SINGLETON
    )


def contains_pickled_name(payload: bytes, name: bytes) -> bool:
    """Returns whether a name is in data of Beam's pickler. The check unpacks only the head of the
    data.

    The check loads nothing. The result is False for data in any other format.
    """
    try:
        packed = base64.b64decode(payload)
        opened = bz2.BZ2Decompressor() if packed.startswith(_BZ2) else zlib.decompressobj()
        return name in opened.decompress(packed, _HEAD_BYTES)
    except (ValueError, OSError, zlib.error):
        return False


def find_main_input_tag(transform: _protos.PTransform) -> str | None:
    """Returns the tag of a transform's main input; None if the transform has no input."""
    sides = get_side_inputs(transform)
    return min((tag for tag in transform.inputs if tag not in sides), default=None)


def find_main_input(transform: _protos.PTransform) -> str | None:
    """Returns the PCollection that a transform processes; None if the transform has no input."""
    tag = find_main_input_tag(transform)
    return None if tag is None else transform.inputs[tag]


def _find_rewindowed_pcollections(transforms: Sequence[_protos.PTransform]) -> set[str]:
    """Returns the PCollections of a stage whose windows can differ from the windows of the stage's input."""
    found: set[str] = set()
    while True:
        known = len(found)
        for transform in transforms:
            assigns = transform.spec.urn == transform_urns.ASSIGN_WINDOWS
            if assigns or find_main_input(transform) in found:
                found.update(transform.outputs.values())
        if len(found) == known:
            return found


def is_unbounded(pcollection: _protos.PCollection) -> bool:
    """Returns whether a PCollection can be infinite."""
    return pcollection.is_bounded == _protos.IsBounded.UNBOUNDED
