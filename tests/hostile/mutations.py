"""Changes of pipelines such as a broken or hostile client could send: any field of any message, at any depth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from beam_runner_planner import _protos
from google.protobuf.message import DecodeError, Message

_KINDS: tuple[type[Any], ...] = (
    _protos.ParDoPayload,
    _protos.CombinePayload,
    _protos.ReadPayload,
    _protos.TestStreamPayload,
    _protos.WindowIntoPayload,
    _protos.FixedWindowsPayload,
    _protos.SlidingWindowsPayload,
    _protos.SessionWindowsPayload,
)
_NUMBERS = (0, 1, 2, 3, 5, -1, 2**31 - 1, -(2**31))
_LARGE = (2**63 - 1, -(2**63))
_JSON = (None, True, 5, -1.5, "", "x", "\ud800", "reflect" + "/**/" * 40, [], [1], {}, {"x": 1})


def mutated(pipeline: bytes, seed: int, changes: int) -> bytes:
    """Returns the pipeline after some random changes."""
    random = Random(seed)
    proto = _protos.Pipeline.FromString(pipeline)
    for _ in range(changes):
        _change(proto, random)
    data: bytes = proto.SerializeToString()
    if random.random() < 0.02:
        data = data[: random.randrange(len(data) + 1)]
    return data


def _change(proto: _protos.Pipeline, random: Random) -> None:
    places = list(_places(proto))
    if not places:
        return
    message, field = random.choice(places)
    if field.name == "payload" and random.random() < 0.7 and _change_inside(message, random):
        return
    _change_field(proto, message, field, random)


def _places(message: Message) -> Iterator[tuple[Any, Any]]:
    """Yields every set field with its message."""
    waiting: list[Any] = [message]
    while waiting:
        here = waiting.pop()
        for field, value in here.ListFields():
            yield here, field
            if field.message_type is None:
                continue
            if isinstance(value, Message):
                waiting.append(value)
            elif field.message_type.GetOptions().map_entry:
                waiting += [v for v in value.values() if isinstance(v, Message)]
            else:
                waiting += list(value)


def _change_inside(message: Any, random: Random) -> bool:
    """Changes the message, or the JSON object, that is serialized in a payload; returns False without
    such a payload.
    """
    if message.payload.startswith(b"{"):
        told = json.loads(message.payload)
        told[random.choice(sorted(told))] = random.choice(_JSON)
        message.payload = json.dumps(told).encode()
        return True
    for kind in random.sample(_KINDS, len(_KINDS)):
        try:
            inner = kind.FromString(message.payload)
        except DecodeError:
            continue
        places = list(_places(inner))
        if places and inner.SerializeToString() == message.payload:
            _change_field(inner, *random.choice(places), random)
            message.payload = inner.SerializeToString()
            return True
    return False


def _change_field(root: Message, message: Any, field: Any, random: Random) -> None:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _change_map(value, random)
    elif isinstance(value, (str, bytes, int, float)):
        setattr(message, field.name, _other(root, field, value, random))
    elif isinstance(value, Message) or random.random() < 0.3:
        message.ClearField(field.name)
    else:
        _change_list(root, field, value, random)


def _change_map(entries: Any, random: Random) -> None:
    keys = sorted(entries)
    key, other = random.choice(keys), random.choice(keys)
    match random.randrange(4):
        case 0:
            del entries[key]
        case 1 if isinstance(entries[key], Message):
            kept = entries[key].__class__.FromString(entries[key].SerializeToString())
            entries[other].CopyFrom(kept)
        case 1:
            entries[key] = entries[other]
        case 2:
            renamed = random.choice(("", "None", f"{key}'", "stage0/read"))
            if isinstance(entries[key], Message):
                entries[renamed].CopyFrom(
                    entries[key].__class__.FromString(entries[key].SerializeToString())
                )
            else:
                entries[renamed] = entries[key]
            if renamed != key:
                del entries[key]
        case _:
            if isinstance(entries[key], Message):
                entries[key].Clear()
            else:
                entries[key] = entries[key][:0]


def _change_list(root: Message, field: Any, items: Any, random: Random) -> None:
    place = random.randrange(len(items))
    match random.randrange(3):
        case 0:
            del items[place]
        case 1:
            items.append(items[place])
        case _:
            if isinstance(items[place], Message):
                items[place].Clear()
            else:
                items[place] = _other(root, field, items[place], random)


def _other(root: Message, field: Any, value: Any, random: Random) -> Any:
    """Returns another value of the same type: a value from elsewhere in the pipeline, or an unusual value."""
    if isinstance(value, str):
        if random.random() < 0.8:
            return random.choice(_texts(root))
        return random.choice(("", "gone", value * 1000, value + "\n", "\x00"))
    if isinstance(value, bytes):
        cut = random.randrange(len(value) + 1)
        return random.choice(
            (b"", value[:cut], value[cut:] + value[:cut], bytes(random.randbytes(20)))
        )
    if isinstance(value, bool):
        return not value
    if field.cpp_type in (field.CPPTYPE_INT64,):
        return random.choice(_NUMBERS + _LARGE)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return random.randrange(6)
    return random.choice(_NUMBERS[:5])


def _texts(root: Message) -> list[str]:
    found = {"beam:transform:impulse:v1", "beam:transform:reshuffle:v1", "beam:coder:kv:v1"}
    for message, field in _places(root):
        value = getattr(message, field.name)
        if isinstance(value, str):
            found.add(value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            found.update(key for key in value if isinstance(key, str))
    return sorted(found)
