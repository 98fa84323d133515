"""A web interface for any Beam job server: what a job does, why it is slow or stuck, what failed.

`WebServer` serves it on a port; `create_app` gives it as an ASGI application.
"""

from __future__ import annotations

from .app import create_app
from .server import WebError, WebServer
from .settings import WebSettings

__all__ = ["WebError", "WebServer", "WebSettings", "create_app"]
