"""What a prompt is made of: sections, variables, tool order, and contexts that change. How it is assembled is the loop's.

What adds to a prompt finds it here. May import: the root, ``words``, ``session``, ``hooks``, ``tools``.
"""

from .contexts import ContextSource
from .registry import PERSONA, PromptRegistry

__all__ = [
    "PERSONA",
    "ContextSource",
    "PromptRegistry",
]
