"""The file by which a client sends classes of its ``__main__`` along with a job, for elements that name them.

A JSON object: for each class's name its pickle, made by Beam's cloudpickle, in base 64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

FILE_NAME = "beam_runner_main_classes.json"
"""The name under which it is staged."""


def encode(classes: Mapping[str, bytes]) -> bytes:
    """The file with these pickled classes."""
    texts = {name: base64.b64encode(pickled).decode() for name, pickled in classes.items()}
    return json.dumps(texts).encode()


def decode(file: bytes) -> dict[str, bytes]:
    """The pickled classes of a file.

    Raises:
        ValueError: it is none.
    """
    texts = json.loads(file)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("not a JSON object of strings")
    return {name: base64.b64decode(text, validate=True) for name, text in texts.items()}
