"""Delta tables: the sink, its data files, and bounded reads."""
