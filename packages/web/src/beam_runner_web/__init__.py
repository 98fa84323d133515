"""A web interface for any Beam job server: what a job is doing, why it is slow or stuck, and what
failed.

`beam_runner_web.server.WebServer` serves it on a port. `beam_runner_web.app.create_app` returns it
as an ASGI application.
"""
