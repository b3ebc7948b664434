"""An agent of yours as a server of tools, for any client that speaks the Model Context Protocol."""

from .agent import served
from .transports import check_local, serve_http, serve_stdio

__all__ = ["check_local", "serve_http", "serve_stdio", "served"]
