"""What a tool is: its definition, schema, registry and result. How calls are run is the loop's.

What writes a tool finds it here. May import: the root, ``words``, ``hooks``; names ``Agent`` for typing only.
"""

from .definition import Tool, ToolOutput, ToolRun, tool
from .registry import Guard, ToolRegistry

__all__ = [
    "Guard",
    "Tool",
    "ToolOutput",
    "ToolRegistry",
    "ToolRun",
    "tool",
]
