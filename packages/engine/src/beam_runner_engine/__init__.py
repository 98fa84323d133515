"""Beam's rules for elements, watermarks, windows, triggers, state and timers, as state machines.

Import each name from the module that defines it. `public_api.txt` beside the package's `pyproject.toml` lists the public names.
"""
