"""Sinks that write each element exactly once, in batches and streams, on any runner with stable input."""
