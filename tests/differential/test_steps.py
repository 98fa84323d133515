"""Tests that the fixed corpus contains steps of every kind."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from build import KINDS
from corpus import CORPUS
from spec import from_text


def test_fixed_corpus_contains_each_kind_of_step() -> None:
    specs = [spec for parts in CORPUS.values() for spec in parts.values()]
    assert {step.op for spec in specs for step in spec.steps} == set(KINDS)
    assert all(str(from_text(str(spec))) == str(spec) for spec in specs)
