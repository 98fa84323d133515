"""Keyed half of the engine: the processing of the keys of one key shard in a bundle. A key shard is
the set of keys with the same hash.
"""
