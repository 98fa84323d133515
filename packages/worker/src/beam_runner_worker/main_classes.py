"""Format of the staged file with the classes of a client's ``__main__`` module. Elements that are
instances of these classes can then be unpickled on workers.

The file is a JSON object. The object maps the name of each class to the class's pickle, made by
Beam's cloudpickle and encoded in base 64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

FILE_NAME = "beam_runner_main_classes.json"
"""Name of the staged file."""


def encode_classes(classes: Mapping[str, bytes]) -> bytes:
    """Encodes pickled classes as the content of the staged file."""
    texts = {name: base64.b64encode(pickled).decode() for name, pickled in classes.items()}
    return json.dumps(texts).encode()


def decode_classes(file: bytes) -> dict[str, bytes]:
    """Decodes the pickled classes from the content of the staged file.

    Raises:
        ValueError: The file is malformed.
    """
    texts = json.loads(file)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("the file isn't a JSON object of strings")
    return {name: base64.b64decode(text, validate=True) for name, text in texts.items()}
