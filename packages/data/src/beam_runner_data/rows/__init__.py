"""Data between stages: rows inline or in files, their partitioning into shards, grouping and spilling."""
