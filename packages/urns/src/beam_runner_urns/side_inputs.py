"""URNs of the access patterns of side inputs on the state channel."""

from __future__ import annotations

ITERABLE = "beam:side_input:iterable:v1"
MULTIMAP = "beam:side_input:multimap:v1"
