"""Check of Flattens whose inputs have different window functions.

Beam's Java SDK refuses such a Flatten. Python's SDK logs a warning, gives the output the windowing
of the first input, and leaves every element in its own windows. The runner can write these windows
only if both kinds have the same coder, as fixed and sliding windows have.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_model.window_fns import OpaqueWindows

from beam_runner_planner import _protos
from beam_runner_planner.windowing import convert_window_fn


def describe_incompatible_window_functions(
    flatten: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    """Yields one description for each input of a Flatten whose windows have another coder than the output's."""
    (output_id,) = set(flatten.outputs.values())
    output = _get_windowing_strategy(output_id, components)
    told: set[str] = set()
    for _, pcollection_id in sorted(flatten.inputs.items()):
        strategy = _get_windowing_strategy(pcollection_id, components)
        if _has_same_encoding(strategy.window_coder_id, output.window_coder_id, components):
            continue
        text = (
            f"a Flatten of elements in {_describe_window_fn(strategy)} into"
            f" {_describe_window_fn(output)}, whose windows have another coder: apply the same"
            " WindowInto to all inputs"
        )
        if text not in told:
            told.add(text)
            yield text


def _get_windowing_strategy(
    pcollection_id: str, components: _protos.Components
) -> _protos.WindowingStrategy:
    strategy_id = components.pcollections[pcollection_id].windowing_strategy_id
    return components.windowing_strategies[strategy_id]


def _describe_window_fn(strategy: _protos.WindowingStrategy) -> str:
    """Returns the engine's description of a window function, or the URN of a window function that the
    engine doesn't know.
    """
    fn = convert_window_fn(strategy.window_fn)
    return repr(fn.urn) if isinstance(fn, OpaqueWindows) else str(fn)


def _has_same_encoding(one_id: str, other_id: str, components: _protos.Components) -> bool:
    """Returns whether two coders encode values in the same way, according to the coders' protos."""
    coders = components.coders
    waiting, seen = [(one_id, other_id)], set()
    while waiting:
        pair = waiting.pop()
        if pair[0] == pair[1] or pair in seen:
            continue
        seen.add(pair)
        one, other = coders[pair[0]], coders[pair[1]]
        parts, others = one.component_coder_ids, other.component_coder_ids
        if one.spec != other.spec or len(parts) != len(others):
            return False
        waiting += zip(parts, others, strict=True)
    return True
