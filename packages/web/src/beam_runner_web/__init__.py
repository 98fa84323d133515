"""A web interface for any Beam job server. Its pages show the progress, the errors and the possible
problems of jobs.

`beam_runner_web.server.WebServer` serves the pages on a port. `beam_runner_web.app.create_app`
returns the pages as an ASGI application.
"""
