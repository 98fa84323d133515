"""The state of key shards: logs of segments, their live content, and the stores that bundles use."""
