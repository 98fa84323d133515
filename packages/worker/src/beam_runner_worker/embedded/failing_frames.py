"""What the frames of this package show of the element that they are at, by their local variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import attrs
from beam_runner_model.texts import shown_bytes, shown_timer

from beam_runner_worker.embedded.shown_elements import shown

_OF_RUNNERS = ("apache_beam/runners/", "/beam_runner_worker/embedded/")
_ONE_RESULT_EACH = "MapTuple.<locals>.<lambda>"

Locals = Mapping[str, Any]


@attrs.define
class Inside:
    """What is known from the frames that a frame has called.

    Attributes:
        frames: these frames, outermost first.
        show: makes a text of an element, or of what was processed of it.
        is_encoding: whether a result could not be encoded.
        results: that result, if it is known.
    """

    frames: list[FrameType]
    show: Callable[[Any], str] = shown
    is_encoding: bool = False
    results: list[Any] = attrs.field(factory=list)

    @property
    def called(self) -> str:
        """The name of the function that the frame called; empty if it raised itself."""
        return self.frames[0].f_code.co_qualname if self.frames else ""

    @property
    def is_decoding(self) -> bool:
        """Whether what the frame called, other methods of its class apart, is a coder."""
        others = [f for f in self.frames if not f.f_code.co_qualname.startswith("ElementDecoder.")]
        return bool(others) and not is_of_runner(others[0])


def is_of_runner(frame: FrameType) -> bool:
    """Whether a frame is of Beam's operations or of this package, and not of user code or a coder."""
    # Beam's compiled modules have paths that begin with the package, its others have such in them.
    return any(part in frame.f_code.co_filename for part in _OF_RUNNERS)


def key_of(pair: Any) -> str:
    """What a combine is at: a key."""
    return f"the key {shown(pair[0])}"


def restriction_of(sized: Any) -> str:
    """What a splittable DoFn is at: an element and its restriction."""
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
    """Results are put out together: what one was made of is known where each element has one."""
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
    name = shown_timer(timer.family, timer.tag)
    if inside.called == "UserStateContext.to_user_timer":
        return f"{name} of the key {shown_bytes(timer.key)} (encoded)"
    due = at["due"]
    return f"{name} of the key {shown(due.user_key)}, due at {due.fire_timestamp}"


def _group(at: Locals, inside: Inside) -> str:
    if not inside.is_decoding:
        return inside.show(at["element"])
    key, values = shown_bytes(at["key"]), shown_bytes(bytes(at["values"]))
    return f"the key {key} with the values {values} (encoded; can't be decoded)"


def _chunk(at: Locals, inside: Inside) -> str:
    if "left" not in at:
        return ""
    encoded = at["self"].last_claimed(at["chunk"])
    if inside.is_decoding:
        return (
            f"{shown_bytes(encoded)} (encoded, with its timestamp, windows and pane;"
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
"""Gives the text of what a function was at, by the function's name."""


def _at(left: Any) -> Any:
    """The value that an iterator over a list, not exhausted, has given last, which it tells to be pickled."""
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
"""Gives what a function was encoding, by the function's name."""
