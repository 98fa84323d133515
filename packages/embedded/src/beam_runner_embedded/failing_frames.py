"""Functions that extract the current element from the local variables of this package's stack frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import attrs
from beam_runner_model.texts import format_bytes, format_timer

from beam_runner_embedded.shown_elements import format_element

_OF_RUNNERS = ("apache_beam/runners/", "/beam_runner_embedded/")
_ONE_RESULT_EACH = "MapTuple.<locals>.<lambda>"

Locals = Mapping[str, Any]


@attrs.define
class CalledFrames:
    """Stack frames that a frame called, with the results of the search in these frames.

    Attributes:
        frames: the inner frames, outermost first.
        show: function that formats an element, or the processed part of it.
        is_encoding: whether the exception was raised while a result was encoded.
        results: the result that couldn't be encoded, if known.
    """

    frames: list[FrameType]
    show: Callable[[Any], str] = format_element
    is_encoding: bool = False
    results: list[Any] = attrs.field(factory=list)

    @property
    def called_function_name(self) -> str:
        """Qualified name of the function that the frame called; empty if the frame itself raised the exception."""
        return self.frames[0].f_code.co_qualname if self.frames else ""

    @property
    def is_decoding(self) -> bool:
        """Whether the exception was raised in a coder that the frame called."""
        others = [f for f in self.frames if not f.f_code.co_qualname.startswith("ElementDecoder.")]
        return bool(others) and not is_runner_frame(others[0])


def is_runner_frame(frame: FrameType) -> bool:
    """Returns True if a frame belongs to Beam's operations or this package, not to user code or a coder."""
    # The paths of Beam's compiled modules start with the package, and the paths of its other
    # modules contain it.
    return any(part in frame.f_code.co_filename for part in _OF_RUNNERS)


def describe_key(pair: Any) -> str:
    """Returns a description of the key that a combine was processing."""
    return f"the key {format_element(pair[0])}"


def describe_restriction(sized: Any) -> str:
    """Returns a description of the element and the restriction that a splittable DoFn was processing."""
    (element, (restriction, _)), _ = sized
    return f"{format_element(element)} with the restriction {format_element(restriction)}"


def _describe_run_value(at: Locals, inside: CalledFrames) -> str:
    values = at["values"]
    if len(values) == 1 or "value" not in at:
        return inside.show(values[0])
    if inside.called_function_name != "ElementRunParDo._emit_results":
        return inside.show(at["value"])
    is_mapped = getattr(at["call"], "__qualname__", "") == _ONE_RESULT_EACH
    return _describe_result_input(at, inside) if is_mapped else ""


def _describe_mapped_value(at: Locals, inside: CalledFrames) -> str:
    values = at["values"]
    if len(values) == 1 or "left" not in at:
        return inside.show(values[0])
    if inside.called_function_name != "ElementRunParDo._emit_results":
        return inside.show(_get_current_item(at["left"]))
    return _describe_result_input(at, inside)


def _describe_result_input(at: Locals, inside: CalledFrames) -> str:
    """Returns a description of the input whose result failed in a consumer; empty if the input is
    unknown.

    Results are emitted together. The input of a result is known only if each input has one result.
    """
    places = [n for n, one in enumerate(at["out"]) if any(one is each for each in inside.results)]
    return inside.show(at["values"][at["put_out"] + places[0]]) if len(places) == 1 else ""


def _describe_value(at: Locals, inside: CalledFrames) -> str:
    return inside.show(at["value"])


def _return_empty_description(at: Locals, inside: CalledFrames) -> str:
    return ""


def _describe_pair(at: Locals, inside: CalledFrames) -> str:
    return inside.show(at["pair"]) if "pair" in at else ""


def _describe_current_key(at: Locals, inside: CalledFrames) -> str:
    return f"the key {format_element(at['key'])}"


def _describe_state_key(at: Locals, inside: CalledFrames) -> str:
    key = f"the key {format_element(at['self'].key)}"
    for frame in inside.frames:
        if frame.f_code.co_qualname == "StoredCell._encode_values":
            state = frame.f_locals["self"].cell.state_id
            return f"{key} (can't encode a value for its state {state!r})"
    return key


def _describe_timer(at: Locals, inside: CalledFrames) -> str:
    timer = at["timer"]
    name = format_timer(timer.family, timer.tag)
    if inside.called_function_name == "UserStateContext.convert_due_timer":
        return f"{name} of the key {format_bytes(timer.key)} (encoded)"
    due = at["due"]
    return f"{name} of the key {format_element(due.user_key)}, due at {due.fire_timestamp}"


def _describe_group(at: Locals, inside: CalledFrames) -> str:
    if not inside.is_decoding:
        return inside.show(at["element"])
    key, values = format_bytes(at["key"]), format_bytes(bytes(at["values"]))
    return f"the key {key} with the values {values} (encoded; can't be decoded)"


def _describe_chunk_element(at: Locals, inside: CalledFrames) -> str:
    if "left" not in at:
        return ""
    encoded = at["self"].read_last_claimed(at["chunk"])
    if inside.is_decoding:
        return (
            f"{format_bytes(encoded)} (encoded, with its timestamp, windows and pane;"
            " can't be decoded)"
        )
    return inside.show(at["self"].decode_first(encoded).value)


SHOWS: Mapping[str, Callable[[Locals, CalledFrames], str]] = {
    "ElementRunParDo._process_each_value": _describe_run_value,
    "ElementRunParDo._map_values": _describe_mapped_value,
    "_ElementTarget.process_element_run": _describe_value,
    "AssignWindows._process_by_element": _describe_value,
    "MemoryBoundedCombine._add_pairs": _describe_pair,
    "add_tuples": _describe_pair,
    "MemoryBoundedCombine._add_pairs_in_bulk": _describe_pair,
    "MemoryBoundedCombine._combine_waiting_values": _describe_current_key,
    "MemoryBoundedCombine._compact_accumulator": _describe_current_key,
    "MemoryBoundedCombine._emit_table": _return_empty_description,
    "UserStateContext.flush": _describe_state_key,
    "StageProcessor.process_timers": _describe_timer,
    "GroupDecoder.decode_chunk": _describe_group,
    "ElementDecoder.decode_chunk": _describe_chunk_element,
}
"""Functions that describe the current element of a frame, by the qualified name of the frame's function."""


def _get_current_item(left: Any) -> Any:
    """Returns the last value that a list iterator returned. The pickle state of an unexhausted
    iterator contains the list and the position.
    """
    _, (values,), place = left.__reduce__()
    return values[max(place - 1, 0)]


def _get_current_run_value(at: Locals) -> Any:
    return _get_current_item(at["run"][1])


def _get_sink_value(at: Locals) -> Any:
    return at["element"].value if at.get("run") is None else _get_current_run_value(at)


ENCODES: Mapping[str, Callable[[Locals], Any]] = {
    "_make_element_run_encoder.<locals>.encode": _get_current_run_value,
    "_make_element_run_encoder.<locals>.encode_elements": _get_current_run_value,
    "KeyedSink._encode_element_run": _get_current_run_value,
    "KeyedSink._encode_pair_run": _get_current_run_value,
    "KeyedSink._encode_items": _get_sink_value,
    "ElementSink._encode_items": _get_sink_value,
    "WindowSink._encode_items": _get_sink_value,
}
"""Functions that return the value that a frame was encoding, by the qualified name of the frame's function."""
