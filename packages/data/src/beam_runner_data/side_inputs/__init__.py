"""Readers of side inputs, from memory or through an index on disk."""
