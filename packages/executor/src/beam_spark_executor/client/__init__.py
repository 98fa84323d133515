"""Client side: the runner in the program that builds a pipeline, and the server that it finds or
starts.

The client uses the Job API and imports nothing of the server, unless the server runs in this
process.
"""
