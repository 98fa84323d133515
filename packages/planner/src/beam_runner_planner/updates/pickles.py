"""Comparison of Python pickles without the parts that change although the code stays the same.

A class or function of a script is pickled by value. The pickle then contains the path of the
script, line numbers and random ids, so two submissions of one script have different bytes. This
module parses pickles and executes nothing: it follows the stack of the pickle, and builds a graph
of the operations that made each value.
"""

from __future__ import annotations

import base64
import bz2
import hashlib
import pickletools
import zlib
from collections.abc import Sequence
from typing import Any

import attrs

from beam_runner_planner import _protos

_BZ2 = b"BZh"
_MOST_BYTES = 1 << 18
"""The maximum size of a pickle to parse, in bytes. Larger pickles are compared byte by byte."""
_UNSTABLE_KEYS = ("__file__", "__firstlineno__", "_step_label")
"""Keys of paths, line numbers, and the step's name in Beam's coders of untyped keys."""
_ARGUMENTS_OF_CODE = {16: (10, 12, 13), 18: (10, 13, 14)}
"""By number of arguments of a code object, the indexes of its path, first line and line table."""
_ID_OF_CLASS = 4
"""The index of the random id among the arguments of `_make_skeleton_class`."""
_CHANGES_TARGET = frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"})
_STORES = frozenset({"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"})
_LOADS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})


@attrs.define(eq=False)
class _PickleValue:
    """A value in a pickle: the pickle operation that creates the value, with the operation's
    argument and operands.
    """

    operation: str
    argument: Any = None
    parts: list[_PickleValue] = attrs.field(factory=list)


def digest_pickle(payload: bytes) -> bytes:
    """Returns a digest of a payload of Beam's pickler that stays the same if only paths, line
    numbers and random ids change. Returns the payload itself if it has another format.
    """
    try:
        return _compute_value_digest(_parse_pickle(_decompress_payload(payload)), {})
    except (ValueError, IndexError, KeyError, OSError, zlib.error, RecursionError):
        return payload


def digest_wrapped_pickle(payload: bytes) -> bytes:
    """Returns the digest of a pickled coder, whose pickle is in a message, after the coder's name."""
    try:
        value = _protos.BytesValue.FromString(payload).value
    except _protos.DecodeError:
        return payload
    name, separator, pickled = value.rpartition(b"$")
    return bytes(name + separator + digest_pickle(pickled))


def _decompress_payload(payload: bytes) -> bytes:
    packed = base64.b64decode(payload, validate=True)
    opened = bz2.BZ2Decompressor() if packed.startswith(_BZ2) else zlib.decompressobj()
    pickled = opened.decompress(packed, _MOST_BYTES)
    if not opened.eof:
        raise ValueError("the pickle is too large")
    return pickled


def _parse_pickle(pickled: bytes) -> _PickleValue:
    """Returns the value of a pickle, and the intermediate results that the pickle discards.

    An intermediate result is the result of a call that changes another value, for example a class.

    Raises:
        ValueError, IndexError, KeyError: the pickle is malformed.
    """
    stack: list[_PickleValue | None] = []
    memo: dict[Any, _PickleValue | None] = {}
    thrown_away: list[_PickleValue] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in _IGNORED:
            continue
        if name in _STORES:
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in _LOADS:
            stack.append(memo[argument])
        elif name == "MARK":
            stack.append(None)
        elif name == "DUP":
            stack.append(stack[-1])
        else:
            operands = _pop_operands(stack, opcode)
            if name in _CHANGES_TARGET:
                operands[0].parts.append(_PickleValue(name.removesuffix("S"), None, operands[1:]))
                stack.append(operands[0])
            elif not opcode.stack_after:
                thrown_away += operands
            else:
                stack.append(_PickleValue(_name_operation(opcode), argument, operands))
    value = stack.pop()
    if value is None or stack:
        raise ValueError("the pickle must contain exactly one value")
    return _PickleValue("whole", None, [value, *thrown_away])


def _pop_operands(
    stack: list[_PickleValue | None], opcode: pickletools.OpcodeInfo
) -> list[_PickleValue]:
    """Removes the operands of a pickle operation from the stack, and returns the operands in
    order.
    """
    before = opcode.stack_before
    taken: list[_PickleValue | None] = []
    if pickletools.stackslice in before:
        while (top := stack.pop()) is not None:
            taken.append(top)
        count = before.index(pickletools.markobject)
    else:
        count = len(before)
    taken += [stack.pop() for _ in range(count)]
    if None in taken:
        raise ValueError("an operand of the pickle is missing")
    return [one for one in reversed(taken) if one is not None]


def _name_operation(opcode: pickletools.OpcodeInfo) -> str:
    """Returns one name for all operations that make values of one type, for example long and short
    texts.
    """
    (made,) = opcode.stack_after
    is_made_from_code = made is pickletools.anyobject
    return opcode.name if is_made_from_code else made.name


def _compute_value_digest(value: _PickleValue, known: dict[int, bytes]) -> bytes:
    """Returns the digest of a pickled value, including all nested values. A value inside itself
    counts as empty.
    """
    found = known.get(id(value))
    if found is None:
        known[id(value)] = b""
        digest = hashlib.sha256(repr((value.operation, value.argument)).encode())
        for part in _list_stable_parts(value):
            digest.update(b"," + _compute_value_digest(part, known))
        found = known[id(value)] = digest.digest()
    return found


def _list_stable_parts(value: _PickleValue) -> Sequence[_PickleValue]:
    """Returns the parts of a value without paths, line numbers and random ids."""
    match value:
        case _PickleValue("REDUCE", parts=[function, arguments, *changes]):
            left_out = _list_arguments_that_vary(function, len(arguments.parts))
            stable = [part for n, part in enumerate(arguments.parts) if n not in left_out]
            return [function, *stable, *changes]
        case _PickleValue("SETITEM", parts=parts):
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return [
                one
                for pair in pairs
                if not _is_text_value(pair[0], *_UNSTABLE_KEYS)
                for one in pair
            ]
        case _:
            return value.parts


def _list_arguments_that_vary(function: _PickleValue, count: int) -> Sequence[int]:
    match function:
        case _PickleValue("STACK_GLOBAL", parts=[_, name]) if _is_text_value(
            name, "_make_skeleton_class"
        ):
            return (_ID_OF_CLASS,)
        case _PickleValue("REDUCE", parts=[_, _PickleValue(parts=[name])]) if _is_text_value(
            name, "CodeType"
        ):
            return _ARGUMENTS_OF_CODE.get(count, ())
        case _:
            return ()


def _is_text_value(value: _PickleValue, *texts: str) -> bool:
    return not value.parts and value.argument in texts
