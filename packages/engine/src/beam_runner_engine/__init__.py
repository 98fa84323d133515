"""Beam's rules for elements, watermarks, windows, triggers, state and timers, as a pure state
machine.

All public names are listed here; `public_api.txt` beside the package's `pyproject.toml` spells
them out.
"""

from __future__ import annotations
