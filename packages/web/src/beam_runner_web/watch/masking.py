"""Pipeline options for display: with plain names, and with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES = (
    r"passw|pwd|secret|token|credential|private|signature|connection_?string"
    r"|(?:api|access|auth|account)_?key"
)
_SECRET = re.compile(_NAMES, re.IGNORECASE)
_WITHIN = re.compile(
    # The pattern limits repetitions, so that a search takes linear time.
    rf"(?:\bsig|(?:{_NAMES})[\w.-]{{0,40}})[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?P<secret>[^\s\"'&;,}}]+)",
    re.IGNORECASE,
)
"""Matches a secret after its name within a text: in a URL's query, a connection string, or JSON."""
_URL_SECRET = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_PLAIN = re.compile(r"[\w.-]+")
MASK = "••••••"

_OPTION = re.compile(r"^beam:option:(?P<name>.+):v\d+$")
JOB_NAME = "job_name"


def get_plain_name(key: str) -> str:
    """Returns an option's plain name, such as `job_name` for `beam:option:job_name:v1`."""
    found = _OPTION.match(key)
    return found["name"] if found else key


def list_masked_options(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the names and values of all options that are set, by name, with probable secrets masked."""
    named = {get_plain_name(key): value for key, value in options.items()}
    return [
        (name, _mask_option(name, value))
        for name, value in sorted(named.items())
        if value not in (None, "", [], {})
    ]


def _mask_option(name: str, value: Any) -> Any:
    if _SECRET.search(name):
        return MASK
    return _mask_item(value)


def _mask_item(value: Any) -> Any:
    """Returns an item of a list option, masked if necessary. In an item `key=value`, such as an
    experiment, `key` decides.
    """
    if isinstance(value, Mapping):
        return {key: _mask_option(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mask_item(inner) for inner in value]
    if not isinstance(value, str):
        return value
    key, equals, _ = value.partition("=")
    if equals and _PLAIN.fullmatch(key) and _SECRET.search(key):
        return f"{key}={MASK}"
    return _WITHIN.sub(_replace_secret, _URL_SECRET.sub(MASK, value))


def _replace_secret(found: re.Match[str]) -> str:
    return found[0].removesuffix(found["secret"]) + MASK


def get_option(options: Mapping[str, Any], name: str) -> Any:
    """Returns the value of the option with a plain name; None if the option isn't set."""
    return options.get(f"beam:option:{name}:v1", options.get(name))
