"""Encoding of section replies, which Spark's shuffle transports with the rows. The encoding isn't
pickle, so decoding can't run code.

Sender and receiver run the same version of this package. So a reply doesn't contain a description
of its fields, unlike persisted records.
"""

from __future__ import annotations

from beam_runner_storage.journal.codec import RecordFormatError, RecordRegistry

from beam_runner_runtime.channel import attempts
from beam_runner_runtime.forms import CONSTANTS, FORMS, SHARED, collect_record_classes
from beam_runner_runtime.sections import replies
from beam_runner_runtime.sections.replies import SectionReply

_FORMS = {**collect_record_classes({"channel ": (attempts,), "section ": (replies,)}), **FORMS}
_REGISTRY = RecordRegistry(_FORMS, SHARED, CONSTANTS)


def encode_section_reply(reply: SectionReply) -> bytes:
    """Encodes a section's reply as bytes, for `decode_section_reply`."""
    return _REGISTRY.encode(reply)


def decode_section_reply(encoded: bytes) -> SectionReply:
    """Reads a reply that `encode_section_reply` encoded.

    Raises:
        RecordFormatError: The bytes contain another record.
    """
    reply = _REGISTRY.decode(encoded, _REGISTRY.layout)
    if not isinstance(reply, SectionReply):
        raise RecordFormatError(f"unexpected message {type(reply).__name__} from a section task")
    return reply
