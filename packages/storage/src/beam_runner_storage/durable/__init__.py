"""Crash-safe SQLite databases, folders and logs."""
