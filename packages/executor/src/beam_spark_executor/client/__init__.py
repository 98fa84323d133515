"""Client side: the runner class in the user's program, which finds or starts a job server and
submits the pipeline.

The client uses only the Job API. It imports modules of the server only if the server runs in the
same process.
"""
