"""Databases: rows that are written exactly once."""
