"""What worker processes send, as bytes: reading it runs no code, whatever user code has made of its process.

Both ends are this package in the same version, so a message does not tell its layout, as what is kept does.
"""

from __future__ import annotations

from typing import Any

import msgpack
from beam_runner_model import observation
from beam_runner_storage.journal.codec import FormError, Registry
from beam_runner_worker import log_records

from beam_runner_runtime.channel import attempts, messages
from beam_runner_runtime.channel.messages import FromWorker
from beam_runner_runtime.forms import CONSTANTS, FORMS, SHARED, forms_of

_MESSAGES = forms_of(
    {
        "channel ": (attempts, messages),
        "log ": (log_records,),
        "observation ": (observation,),
    }
)
_REGISTRY = Registry({**_MESSAGES, **FORMS}, SHARED, CONSTANTS)


def encode_message(message: FromWorker) -> bytes:
    """A message of a worker process as bytes."""
    return _REGISTRY.encode(message)


def decode_message(encoded: bytes) -> FromWorker:
    """What `encode_message` gave.

    Raises:
        FormError: it is none of the messages that worker processes send.
    """
    message = _REGISTRY.decode(encoded, _REGISTRY.layout)
    if not isinstance(message, FromWorker):
        raise FormError(f"worker processes send no {type(message).__name__}")
    return message


def encode_request(*values: str | int) -> bytes:
    """What a worker process asks for: the id of a job, say."""
    encoded: bytes = msgpack.packb(values)
    return encoded


def decode_request(encoded: bytes, *types: type) -> tuple[Any, ...]:
    """What `encode_request` gave.

    Args:
        types: of its values.

    Raises:
        FormError: it is something else.
    """
    try:
        values = msgpack.unpackb(encoded, use_list=False)
    except (ValueError, TypeError) as error:
        raise FormError(f"no request: {error}") from error
    if not isinstance(values, tuple) or [type(value) for value in values] != list(types):
        raise FormError("no request")
    return values
