"""Grouping of elements by key and window."""
