"""Extraction of the current element from the local variables of this package's frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import attrs
from beam_runner_model.texts import format_bytes, format_timer

from beam_runner_worker.embedded.shown_elements import shown

_OF_RUNNERS = ("apache_beam/runners/", "/beam_runner_worker/embedded/")
_ONE_RESULT_EACH = "MapTuple.<locals>.<lambda>"

Locals = Mapping[str, Any]


@attrs.define
class Inside:
    """Knowledge from the inner frames that a frame has called.

    Attributes:
        frames: inner frames, outermost first.
        show: function that formats an element, or the processed part of it.
        is_encoding: whether a result couldn't be encoded.
        results: the result that couldn't be encoded, if known.
    """

    frames: list[FrameType]
    show: Callable[[Any], str] = shown
    is_encoding: bool = False
    results: list[Any] = attrs.field(factory=list)

    @property
    def called(self) -> str:
        """Name of the function that the frame called; empty if the frame itself raised."""
        return self.frames[0].f_code.co_qualname if self.frames else ""

    @property
    def is_decoding(self) -> bool:
        """Whether the frame called a coder, apart from other methods of its class."""
        others = [f for f in self.frames if not f.f_code.co_qualname.startswith("ElementDecoder.")]
        return bool(others) and not is_of_runner(others[0])


def is_of_runner(frame: FrameType) -> bool:
    """Returns True if a frame belongs to Beam's operations or this package, not to user code or a coder."""
    # The paths of Beam's compiled modules start with the package, and the paths of its other
    # modules contain it.
    return any(part in frame.f_code.co_filename for part in _OF_RUNNERS)


def key_of(pair: Any) -> str:
    """Returns the text for the current key of a combine."""
    return f"the key {shown(pair[0])}"


def restriction_of(sized: Any) -> str:
    """Returns the text for the current element and restriction of a splittable DoFn."""
    (element, (restriction, _)), _ = sized
    return f"{shown(element)} with the restriction {shown(restriction)}"


def _run(at: Locals, inside: Inside) -> str:
    values = at["values"]
    if len(values) == 1 or "value" not in at:
        return inside.show(values[0])
    if inside.called != "RunParDo._send":
        return inside.show(at["value"])
    is_mapped = getattr(at["call"], "__qualname__", "") == _ONE_RESULT_EACH
    return _origin(at, inside) if is_mapped else ""


def _mapped(at: Locals, inside: Inside) -> str:
    values = at["values"]
    if len(values) == 1 or "left" not in at:
        return inside.show(values[0])
    if inside.called != "RunParDo._send":
        return inside.show(_at(at["left"]))
    return _origin(at, inside)


def _origin(at: Locals, inside: Inside) -> str:
    """Returns the text for the input of a failing result; empty if the input is unknown.

    Results are emitted together. The input of a result is known only if each input has one result.
    """
    places = [n for n, one in enumerate(at["out"]) if any(one is each for each in inside.results)]
    return inside.show(at["values"][at["put_out"] + places[0]]) if len(places) == 1 else ""


def _value(at: Locals, inside: Inside) -> str:
    return inside.show(at["value"])


def _nothing(at: Locals, inside: Inside) -> str:
    return ""


def _pair(at: Locals, inside: Inside) -> str:
    return inside.show(at["pair"]) if "pair" in at else ""


def _key(at: Locals, inside: Inside) -> str:
    return f"the key {shown(at['key'])}"


def _kept(at: Locals, inside: Inside) -> str:
    key = f"the key {shown(at['self'].key)}"
    for frame in inside.frames:
        if frame.f_code.co_qualname == "StoredCell._encoded":
            state = frame.f_locals["self"].cell.state_id
            return f"{key} (can't encode a value for its state {state!r})"
    return key


def _timer(at: Locals, inside: Inside) -> str:
    timer = at["timer"]
    name = format_timer(timer.family, timer.tag)
    if inside.called == "UserStateContext.to_user_timer":
        return f"{name} of the key {format_bytes(timer.key)} (encoded)"
    due = at["due"]
    return f"{name} of the key {shown(due.user_key)}, due at {due.fire_timestamp}"


def _group(at: Locals, inside: Inside) -> str:
    if not inside.is_decoding:
        return inside.show(at["element"])
    key, values = format_bytes(at["key"]), format_bytes(bytes(at["values"]))
    return f"the key {key} with the values {values} (encoded; can't be decoded)"


def _chunk(at: Locals, inside: Inside) -> str:
    if "left" not in at:
        return ""
    encoded = at["self"].last_claimed(at["chunk"])
    if inside.is_decoding:
        return (
            f"{format_bytes(encoded)} (encoded, with its timestamp, windows and pane;"
            " can't be decoded)"
        )
    return inside.show(at["self"].decode(encoded).value)


SHOWS: Mapping[str, Callable[[Locals, Inside], str]] = {
    "RunParDo._process": _run,
    "RunParDo._map": _mapped,
    "_ElementTarget.take": _value,
    "AssignWindows._process_by_element": _value,
    "TableCombine._add_each": _pair,
    "TableCombine._add_in_bulk": _pair,
    "TableCombine._add_waiting": _key,
    "TableCombine._accumulator": _key,
    "TableCombine._put_out": _nothing,
    "UserStateContext.flush": _kept,
    "Processor.fire": _timer,
    "GroupDecoder.feed": _group,
    "ElementDecoder.feed": _chunk,
}
"""Functions that return the text for the current element, by the name of the frame's function."""


def _at(left: Any) -> Any:
    """Returns the last value of an unexhausted list iterator, whose pickle state contains the list and the position."""
    _, (values,), place = left.__reduce__()
    return values[max(place - 1, 0)]


def _of_run(at: Locals) -> Any:
    return _at(at["run"][1])


def _of_sink(at: Locals) -> Any:
    return at["element"].value if at.get("run") is None else _of_run(at)


ENCODES: Mapping[str, Callable[[Locals], Any]] = {
    "_run_encoder.<locals>.encode": _of_run,
    "_run_encoder.<locals>.encode_apart": _of_run,
    "KeyedSink._encode_run": _of_run,
    "KeyedSink._encode_whole_run": _of_run,
    "KeyedSink._encoder": _of_sink,
    "ElementSink._encoder": _of_sink,
    "WindowSink._encoder": _of_sink,
}
"""Functions that return the value that was being encoded, by the name of the frame's function."""
