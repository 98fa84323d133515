"""Data between stages: rows inline or in files, how they are dealt to shards, grouped, spilled and found again."""
