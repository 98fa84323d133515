"""Shutdown and failure detection as data: states, messages, limits, transitions, and which component detects which failure."""
