"""Keyed half of the engine: processing of the keys of one shard in a bundle."""
