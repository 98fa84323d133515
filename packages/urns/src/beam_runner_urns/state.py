"""URNs of the kinds of user state, each with a separate protocol on the state channel."""

from __future__ import annotations

BAG = "beam:user_state:bag:v1"
MULTIMAP = "beam:user_state:multimap:v1"
ORDERED_LIST = "beam:user_state:ordered_list:v1"
