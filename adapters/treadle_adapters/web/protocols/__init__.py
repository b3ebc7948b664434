"""What front ends speak, in front of an agent: AG-UI, the AI SDK's messages, OpenAI's. Each follows one turn.

May import: the rest of the web, but for the application.
"""

from .agui import Agui
from .aisdk import AiSdk
from .openai import Front
from .turns import Turns

__all__ = ["Agui", "AiSdk", "Front", "Turns"]
