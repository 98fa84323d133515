"""The graph of a pipeline: the visible steps, their layers, and the layout of the drawing."""
