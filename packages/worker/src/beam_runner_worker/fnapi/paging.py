"""Paging of long values: an SDK reads them in pages of about 1 MiB.

Pages end between elements, because SDKs decode every page separately. If the runner can't find the
ends of elements, the value is one page. A continuation token is the position of the next page, so a
page can be read again. The last 4 values are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from beam_runner_model.lengths import Skip
from beam_runner_model.value_pieces import PIECE_BYTES

_PAGED_AT_ONCE = 4


class Pager:
    """Reader of pages, which caches the values that are being read. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def read_page(
        self,
        name: bytes,
        token: bytes,
        read: Callable[[], bytes],
        skip: Callable[[], Skip | None],
    ) -> tuple[bytes, bytes]:
        """Returns a page of a value, and the token of the next page (empty after the last page).

        Args:
            name: key of the value in the cache.
            token: the token that came with the previous page; empty for the first page.
            read: returns the complete current value. Later pages use the cached value of the first
                page, if it is still in the cache.
            skip: returns a function that skips one encoded element; None if the coder doesn't show
                where an element ends.
        """
        begin = int(token) if token else 0
        data = self._kept.pop(name, None)
        if data is None or not token:
            data = read()
        if len(data) - begin <= PIECE_BYTES:
            return data[begin:], b""
        skip_element = skip()
        end = len(data) if skip_element is None else find_page_end(data, begin, skip_element)
        if end >= len(data):
            return data[begin:], b""
        self._kept[name] = data
        if len(self._kept) > _PAGED_AT_ONCE:
            self._kept.popitem(last=False)
        return data[begin:end], b"%d" % end


def find_page_end(data: bytes, begin: int, skip: Skip) -> int:
    """Returns the end of the page that begins at a position: the end of the first element at which the
    page has at least 1 MiB.
    """
    end, wanted, size = begin, begin + PIECE_BYTES, len(data)
    while end < wanted and end < size:
        end = skip(data, end)
    return end
