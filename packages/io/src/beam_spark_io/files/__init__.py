"""Files that are written exactly once."""
