"""Rows of encoded elements between stages: inline or in files, partitioned by shard, spilled to disk."""
