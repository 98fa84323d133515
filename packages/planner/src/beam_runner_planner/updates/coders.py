"""Trees of coders without component ids, and comparison of such trees.

The ids of coders are numbers, which differ between two pipelines. Two coders are equal if their
URNs, payloads and component coders are equal. For rows, `rows` compares the schemas; for coders that
Python pickles, `pickles` leaves out paths and line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import python_sdk

from beam_runner_planner import _protos
from beam_runner_planner.updates.pickles import digest_wrapped_pickle
from beam_runner_planner.updates.rows import compare_schemas

_NAME_IN_URN = re.compile(r"(?:beam:coder:|beam:)?(?P<name>.*?)(?::v[\d.]+)?$")


@attrs.frozen
class CoderTree:
    """A coder with its component coders.

    Attributes:
        urn: the URN of the coder.
        payload: the parameters of the coder.
        parts: the component coders.
    """

    urn: str
    payload: bytes = attrs.field(repr=False)
    parts: tuple[CoderTree, ...] = ()

    def __str__(self) -> str:
        """Returns the display name of the coder, for example ``kv<varint, bytes>``."""
        match = _NAME_IN_URN.match(self.urn)
        name = match["name"] if match else self.urn
        return f"{name}<{', '.join(map(str, self.parts))}>" if self.parts else name


@attrs.frozen
class CoderChange:
    """Difference between two coders.

    Attributes:
        before: the old coder, or the component of the old coder that differs.
        after: the new coder, or the component of the new coder that differs.
        is_readable: whether the new coder reads all data of the old coder.
    """

    before: str
    after: str
    is_readable: bool = False


def build_coder_tree(coder_id: str, coders: Mapping[str, _protos.Coder]) -> CoderTree:
    """Returns the tree of a coder. If a coder contains itself, the recursion stops."""
    return _build_tree(coder_id, coders, ())


def _build_tree(
    coder_id: str, coders: Mapping[str, _protos.Coder], around: tuple[str, ...]
) -> CoderTree:
    if coder_id in around or coder_id not in coders:
        return CoderTree(coder_id, b"")
    coder, inner = coders[coder_id], (*around, coder_id)
    parts = tuple(_build_tree(part, coders, inner) for part in coder.component_coder_ids)
    return CoderTree(coder.spec.urn, coder.spec.payload, parts)


def compare_coders(old: CoderTree, new: CoderTree) -> CoderChange | None:
    """Returns the first difference between two coders; None if the coders are equal.

    If the coders differ in several ways, a difference that makes stored data unreadable comes
    first.
    """
    if old.urn != new.urn or len(old.parts) != len(new.parts):
        return CoderChange(str(old), str(new))
    if old.urn == coder_urns.ROW:
        return _compare_row_coders(old, new)
    if _get_coder_content(old) != _get_coder_content(new):
        return CoderChange(str(old), f"{new} with other parameters")
    changes = [
        change
        for before, after in zip(old.parts, new.parts, strict=True)
        if (change := compare_coders(before, after)) is not None
    ]
    return min(changes, key=lambda change: change.is_readable, default=None)


def _get_coder_content(coder: CoderTree) -> bytes:
    is_pickled = coder.urn == python_sdk.PICKLED_CODER
    return digest_wrapped_pickle(coder.payload) if is_pickled else coder.payload


def _compare_row_coders(old: CoderTree, new: CoderTree) -> CoderChange | None:
    if old.payload == new.payload:
        return None
    try:
        rows = compare_schemas(old.payload, new.payload)
    except _protos.DecodeError:
        return CoderChange(str(old), "row with an unreadable schema")
    return None if rows is None else CoderChange(rows.before, rows.after, rows.is_readable)
