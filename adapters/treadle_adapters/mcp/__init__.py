"""Tools of servers that speak the Model Context Protocol: over stdio and streamable HTTP. Needs the extra ``mcp``.

``MCPTools`` attaches servers to a host, an agent or a scope; ``StdioServer`` and ``HTTPServer`` say what they are.
The SDK is imported when the first server is needed.
"""

from .blocks import Audio, Image, Resource
from .connection import Unavailable
from .points import (
    MCP_ELICITATION,
    MCP_SAMPLING,
    Accept,
    Decline,
    Dismiss,
    Elicitation,
    RefuseSampling,
    Sampled,
    Sampling,
)
from .servers import HTTPServer, Limits, Server, StdioServer, servers_declared, servers_named
from .tools import MCPTools

__all__ = [
    "MCP_ELICITATION",
    "MCP_SAMPLING",
    "Accept",
    "Audio",
    "Decline",
    "Dismiss",
    "Elicitation",
    "HTTPServer",
    "Image",
    "Limits",
    "MCPTools",
    "RefuseSampling",
    "Resource",
    "Sampled",
    "Sampling",
    "Server",
    "StdioServer",
    "Unavailable",
    "servers_declared",
    "servers_named",
]
