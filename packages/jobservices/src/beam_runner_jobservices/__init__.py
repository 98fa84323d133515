"""The Beam Job API server and client, as a library for any runner.

`server.JobServer` passes jobs to a runner's `ports.JobExecutor`. `client.JobClient` is a client of any job server.
"""
