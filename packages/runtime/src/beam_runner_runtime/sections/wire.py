"""What the tasks of a section say, as bytes that travel with their rows: reading it runs no code.

Both ends are this package in the same version, so a reply doesn't tell its layout, as what is kept does.
"""

from __future__ import annotations

from beam_runner_storage.journal.codec import FormError, Registry

from beam_runner_runtime.channel import attempts
from beam_runner_runtime.forms import CONSTANTS, FORMS, SHARED, forms_of
from beam_runner_runtime.sections import replies
from beam_runner_runtime.sections.replies import SectionReply

_FORMS = {**forms_of({"channel ": (attempts,), "section ": (replies,)}), **FORMS}
_REGISTRY = Registry(_FORMS, SHARED, CONSTANTS)


def encode_reply(reply: SectionReply) -> bytes:
    """Returns what `decode_reply` reads."""
    return _REGISTRY.encode(reply)


def decode_reply(encoded: bytes) -> SectionReply:
    """Reads what `encode_reply` returned.

    Raises:
        FormError: it is something else.
    """
    reply = _REGISTRY.decode(encoded, _REGISTRY.layout)
    if not isinstance(reply, SectionReply):
        raise FormError(f"tasks of a section send no {type(reply).__name__}")
    return reply
