"""Encoded elements in columns and files: shuffles, grouping, indexes of side inputs, segments of state."""
