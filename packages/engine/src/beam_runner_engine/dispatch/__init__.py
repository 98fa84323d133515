"""What runs next among bundles that are open: pure rules over what has happened, for a host to carry out."""

from __future__ import annotations

from beam_runner_engine.dispatch.waiting import WaitingBundles

__all__ = ["WaitingBundles"]
