"""What runs in the program that builds a pipeline: the runner, and the server that it finds or starts.

It is a client of the Job API and imports nothing of the server, except where it has one in this process.
"""
