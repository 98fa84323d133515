"""The Beam Job API server and client, as a library for any runner.

`server.JobServer` serves jobs to a runner's `ports.JobExecutor`; `client.JobClient` talks to any job server.
"""
