"""Side inputs, in memory or by an index of their files."""
