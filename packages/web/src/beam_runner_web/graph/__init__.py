"""The graph of a pipeline: a view of it, its layers, and its drawing."""
