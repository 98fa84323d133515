"""Runs Python stages in this very process, with Beam's own bundle processor and our own edges."""

from __future__ import annotations

from beam_runner_worker.embedded.harness import EmbeddedHarness

__all__ = ["EmbeddedHarness"]
