"""The state of key shards: logs of segments, what is live in them, and the stores that bundles work on."""
