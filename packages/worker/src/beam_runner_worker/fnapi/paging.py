"""Gives out long values a page of about 1 MiB at a time.

Pages end between elements, for SDKs decode every page by itself. Where the coder does not show
the ends of elements, all is one page. A continuation token is the place where the next page
begins, so a page can be read again; what is being paged is kept, the last few only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from beam_runner_model.lengths import Skip
from beam_runner_model.value_pieces import PIECE_BYTES

_PAGED_AT_ONCE = 4


class Pages:
    """What is being paged; for one thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def page(
        self,
        name: bytes,
        token: bytes,
        read: Callable[[], bytes],
        skip: Callable[[], Skip | None],
    ) -> tuple[bytes, bytes]:
        """A page of a value, and the token of the next one (empty after the last).

        Args:
            name: of the value.
            token: as it was given with the page before; empty for the first page.
            read: gives the whole value as it is now; later pages are mostly of what it gave for
                the first.
            skip: gives what skips one element of it, or None if their ends can't be told.
        """
        begin = int(token) if token else 0
        data = self._kept.pop(name, None)
        if data is None or not token:
            data = read()
        if len(data) - begin <= PIECE_BYTES:
            return data[begin:], b""
        skip_element = skip()
        end = len(data) if skip_element is None else page_end(data, begin, skip_element)
        if end >= len(data):
            return data[begin:], b""
        self._kept[name] = data
        if len(self._kept) > _PAGED_AT_ONCE:
            self._kept.popitem(last=False)
        return data[begin:end], b"%d" % end


def page_end(data: bytes, begin: int, skip: Skip) -> int:
    """Where the page that begins there ends: after the element that makes it large enough."""
    end, wanted, size = begin, begin + PIECE_BYTES, len(data)
    while end < wanted and end < size:
        end = skip(data, end)
    return end
