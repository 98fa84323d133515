"""A web interface for any Beam job server: what a job does, why it is slow or stuck, what failed.

`beam_runner_web.server.WebServer` serves it on a port; `beam_runner_web.app.create_app` gives it as an
ASGI application.
"""
