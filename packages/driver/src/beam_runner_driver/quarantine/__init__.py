"""Quarantine of elements that always fail: its limits, its files, summaries of the files, and replays."""
