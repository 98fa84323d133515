"""Pytest marks of Beam's test modules."""

from __future__ import annotations

import pytest

_OF_BEAM = (
    "it_validatesrunner",
    "it_postcommit",
    "no_sickbay_batch",
    "no_sickbay_streaming",
    "no_xdist",
    "uses_dill",
)


def declare_beam_marks(config: pytest.Config) -> None:
    """Declares the marks to pytest."""
    for mark in _OF_BEAM:
        config.addinivalue_line("markers", f"{mark}: one of Beam's own")
