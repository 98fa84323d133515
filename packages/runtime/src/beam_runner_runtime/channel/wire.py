"""Encoding of messages from worker processes. The encoding isn't pickle, so manipulated messages
can't run code in the server.

Both sides run the same version of this package. Therefore, a message doesn't contain a description
of its fields, unlike persisted records.
"""

from __future__ import annotations

from typing import Any

import msgpack
from beam_runner_model import observation
from beam_runner_storage.journal.codec import RecordFormatError, RecordRegistry
from beam_runner_worker import log_records

from beam_runner_runtime.channel import attempts, messages
from beam_runner_runtime.channel.messages import FromWorker
from beam_runner_runtime.forms import CONSTANTS, FORMS, SHARED, collect_record_classes

_MESSAGES = collect_record_classes(
    {
        "channel ": (attempts, messages),
        "log ": (log_records,),
        "observation ": (observation,),
    }
)
_REGISTRY = RecordRegistry({**_MESSAGES, **FORMS}, SHARED, CONSTANTS)


def encode_message(message: FromWorker) -> bytes:
    """Encodes a message of a worker process for the channel."""
    return _REGISTRY.encode(message)


def decode_message(encoded: bytes) -> FromWorker:
    """Decodes a message that a worker process encoded with `encode_message`.

    Raises:
        RecordFormatError: If the data isn't a message of a worker process.
    """
    message = _REGISTRY.decode(encoded, _REGISTRY.layout)
    if not isinstance(message, FromWorker):
        raise RecordFormatError(
            f"unexpected message {type(message).__name__} from a worker process"
        )
    return message


def encode_request(*values: str | int) -> bytes:
    """Encodes the arguments of a request, such as a job id."""
    encoded: bytes = msgpack.packb(values)
    return encoded


def decode_request(encoded: bytes, *types: type) -> tuple[Any, ...]:
    """Decodes the arguments of a request that `encode_request` encoded.

    Raises:
        RecordFormatError: If the data isn't a request with arguments of these types.
    """
    try:
        values = msgpack.unpackb(encoded, use_list=False)
    except (ValueError, TypeError) as error:
        raise RecordFormatError(f"invalid request from a worker process: {error}") from error
    if not isinstance(values, tuple) or [type(value) for value in values] != list(types):
        raise RecordFormatError("invalid arguments in the request of a worker process")
    return values
