"""The keyed half: what happens to the keys of one shard."""
