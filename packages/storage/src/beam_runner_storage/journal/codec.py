"""Self-describing encoding of records: decoding runs no code, and finds fields by name.

A record is encoded as the number of its class in a layout, followed by the values of its fields. A
layout has the names of classes and fields, and is stored once for many records. So a version whose
classes have more fields, with defaults, can read the records of an older version. The decoder
refuses unknown classes and fields, and never misinterprets data.

Other supported values are None, booleans, 64-bit integers, strings, bytes, tuples, frozensets,
members of enums, and classes themselves. Fields with such a type may hold lists and dictionaries.
"""

from __future__ import annotations

import enum
import functools
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import attrs
import msgpack

_REFERENCE, _LIST, _DICT, _ORDERED, _SET, _CLASS = range(6)
_FIRST = 16
"""Number of the first record class in encoded data; smaller numbers stand for values of other types."""
_CONTAINERS = ("list[", "List[", "dict[", "Dict[", "Mapping[")
_DIGEST_BYTES = 8
_TEXT = "surrogatepass"
"""Error handler for the encoding of strings, because names in user code may contain lone surrogates."""


class RecordFormatError(Exception):
    """Raised if encoded data contains a class, field or value that this version doesn't support."""


@attrs.frozen
class RecordLayout:
    """Numbered list of the classes that encoded data may contain, with the fields of each class in
    order.
    """

    classes: tuple[tuple[str, tuple[str, ...]], ...]

    @functools.cached_property
    def digest(self) -> bytes:
        """Returns a digest that identifies the layout."""
        return blake2b(self.encoded, digest_size=_DIGEST_BYTES).digest()

    @functools.cached_property
    def encoded(self) -> bytes:
        """Returns the layout as bytes, which a journal stores."""
        encoded: bytes = msgpack.packb(self.classes)
        return encoded

    @classmethod
    def decode_layout(cls, data: bytes) -> RecordLayout:
        """Decodes a layout from the result of `encoded`."""
        try:
            return cls(msgpack.unpackb(data, use_list=False))
        except ValueError as error:
            raise RecordFormatError(f"Can't read the field layout: {error}") from error


class RecordRegistry:
    """Registry of the supported classes by their stored names.

    A stored name stays the same if the class is renamed or moved.

    Args:
        classes: attrs classes, enums and classes that are stored as themselves, by name.
        shared: the attrs classes whose objects can occur in several parts of a value, and stay one
            object after decoding.
        constants: the only instances that code may compare by identity.
        removed: by class name, the fields that older versions wrote and that this version ignores.
    """

    def __init__(
        self,
        classes: Mapping[str, type],
        shared: Iterable[type],
        constants: Iterable[object] = (),
        removed: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        self._classes = dict(classes)
        self._constants = {type(value): value for value in constants}
        self._shared = frozenset(shared)
        self._removed = removed
        self.layout = RecordLayout(
            tuple((name, _list_fields(cls)) for name, cls in classes.items())
        )
        """The layout of newly encoded data."""
        self._numbers = {cls: number for number, cls in enumerate(classes.values(), _FIRST)}
        self._names = {cls: name for name, cls in classes.items()}
        self._writers = {
            cls: self._build_writer(cls) for cls in self._classes.values() if attrs.has(cls)
        }

    def encode(self, value: Any) -> bytes:
        """Returns a value as bytes.

        Raises:
            TypeError: the value contains an unsupported type.
        """
        seen: dict[int, tuple[int, Any]] = {}
        writers, shared = self._writers, self._shared

        def convert_to_plain(value: Any) -> Any:
            cls = type(value)
            writer = writers.get(cls)
            if writer is None:
                return self._encode_unregistered_value(value)
            if cls not in shared:
                return writer(value)
            known = seen.get(id(value))
            if known is not None:
                return {_REFERENCE: known[0]}
            # Hold a reference to the object, so that no other object gets the same id.
            seen[id(value)] = (len(seen), value)
            ((number, values),) = writer(value).items()
            return {number: (len(seen) - 1, *values)}

        encoded: bytes = msgpack.packb(value, default=convert_to_plain, unicode_errors=_TEXT)
        return encoded

    def decode(self, data: bytes, layout: RecordLayout) -> Any:
        """Decodes a value that was encoded with a layout.

        Raises:
            RecordFormatError: The data contains a class, field or value that this version doesn't
                support.
        """
        readers = self._build_readers(layout)
        seen: dict[int, Any] = {}

        def get_value(pairs: list[tuple[int, Any]]) -> Any:
            ((number, content),) = pairs
            return readers[number](seen, content)

        try:
            return msgpack.unpackb(
                data,
                object_pairs_hook=get_value,
                use_list=False,
                strict_map_key=False,
                unicode_errors=_TEXT,
            )
        except (ValueError, TypeError, LookupError) as error:
            raise RecordFormatError(f"Can't decode the data: {error!r}") from error

    def _build_writer(self, cls: type) -> Callable[[Any], dict[int, Any]]:
        number = self._numbers[cls]
        fields = attrs.fields(cls)
        wrapped = [any(kind in str(field.type) for kind in _CONTAINERS) for field in fields]
        names = [field.name for field in fields]
        get_values = _build_getter(names)
        if not any(wrapped):
            return lambda value: {number: get_values(value)}
        return lambda value: {
            number: [
                _mark_lists_and_dicts(content) if wrap else content
                for content, wrap in zip(get_values(value), wrapped, strict=True)
            ]
        }

    def _encode_unregistered_value(self, value: Any) -> dict[int, Any]:
        if isinstance(value, frozenset):
            return {_SET: tuple(value)}
        if isinstance(value, enum.Enum) and type(value) in self._numbers:
            return {self._numbers[type(value)]: value.name}
        if isinstance(value, type) and value in self._names:
            return {_CLASS: self._names[value]}
        raise TypeError(f"Can't encode a {type(value).__qualname__} for the journal")

    @functools.lru_cache(maxsize=4)  # noqa: B019 - there is one registry
    def _build_readers(
        self, layout: RecordLayout
    ) -> dict[int, Callable[[dict[int, Any], Any], Any]]:
        readers: dict[int, Callable[[dict[int, Any], Any], Any]] = {
            _REFERENCE: lambda seen, number: seen[number],
            _LIST: lambda _, content: list(content),
            _DICT: lambda _, content: dict(content),
            _ORDERED: lambda _, content: OrderedDict(content),
            _SET: lambda _, content: frozenset(content),
            _CLASS: lambda _, name: self._classes[name],
        }
        for number, (name, fields) in enumerate(layout.classes, _FIRST):
            readers[number] = self._build_reader(name, fields)
        return readers

    def _build_reader(
        self, name: str, fields: tuple[str, ...]
    ) -> Callable[[dict[int, Any], Any], Any]:
        cls = self._classes.get(name)
        if cls is None:
            return _create_refusing_encoder(
                f"unknown record type {name}; a newer version may have written it"
            )
        if not attrs.has(cls):
            return lambda _, member: cls[member]  # type: ignore[index]
        removed = self._removed.get(name, frozenset())
        unknown = set(fields) - set(_list_fields(cls)) - removed
        if unknown:
            return _create_refusing_encoder(
                f"the record type {name} has unknown fields: {unknown}; a"
                " newer version may have written it"
            )
        if fields == _list_fields(cls) and not any(field.kw_only for field in attrs.fields(cls)):
            build_record: Callable[..., Any] = cls
        else:

            def build_record(*values: Any) -> Any:
                told = zip(fields, values, strict=True)
                return cls(**{name: value for name, value in told if name not in removed})

        if cls in self._constants:
            return lambda _, values: self._constants[cls]
        if cls not in self._shared:
            return lambda _, values: build_record(*values)

        def encode_with_cache(seen: dict[int, Any], values: tuple[Any, ...]) -> Any:
            value = seen[values[0]] = build_record(*values[1:])
            return value

        return encode_with_cache


def _list_fields(cls: type) -> tuple[str, ...]:
    """Returns the names of the constructor arguments of an attrs class, or nothing for other classes."""
    return tuple(field.alias for field in attrs.fields(cls)) if attrs.has(cls) else ()


def _build_getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that returns the values of these attributes of an object."""
    if len(names) > 1:
        # This getter returns a tuple only for several names. It is faster than a loop over the names.
        return operator.attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _mark_lists_and_dicts(value: Any) -> Any:
    """Returns a value whose lists and dictionaries are marked, so that they differ from tuples and records."""
    kind = type(value)
    if kind is list:
        return {_LIST: [_mark_lists_and_dicts(each) for each in value]}
    if kind is tuple:
        return tuple([_mark_lists_and_dicts(each) for each in value])
    if kind is dict or kind is OrderedDict:
        pairs = [
            (_mark_lists_and_dicts(key), _mark_lists_and_dicts(each)) for key, each in value.items()
        ]
        return {_DICT if kind is dict else _ORDERED: pairs}
    return value


def _create_refusing_encoder(why: str) -> Callable[[dict[int, Any], Any], Any]:
    def raise_refusal(_: dict[int, Any], content: Any) -> Any:
        raise ValueError(why)

    return raise_refusal
