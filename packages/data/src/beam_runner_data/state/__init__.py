"""State of key shards: logs of segments, the live content, and the stores that bundles use."""
