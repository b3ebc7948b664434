"""DeepSeek: chat completions with reasoning that goes back beside calls, and its own words."""

from __future__ import annotations

from typing import Unpack

from .http_model import HTTPOptions
from .openai_chat import OpenAIChat, ReasoningEcho

BASE_URL = "https://api.deepseek.com"
"""DeepSeek's own endpoint."""

API_KEY_ENV = "DEEPSEEK_API_KEY"
"""Where the key is looked for at DeepSeek's own endpoint when none is given."""


class DeepSeek(OpenAIChat):
    """Speaks DeepSeek's chat completions (Q5).

    An answer that asks for tools carries its ``reasoning_content`` back in every later request, exactly as it came:
    DeepSeek refuses the rest of a tool turn without it. Tokens read from its cache are reported as such. The finish
    ``insufficient_system_resource`` is kept as it is: the answer was interrupted.

    Args:
        base_url: ends before ``/chat/completions``.
        reasoning_echo: which answers carry their reasoning back; the choice is open because the service has both
            refused and demanded it.
        options: see ``HTTPOptions``; at DeepSeek's own endpoint the key is looked for in ``DEEPSEEK_API_KEY``.

    Raises:
        MisuseError: an option cannot be used.
    """

    default_name = "deepseek"

    def __init__(
        self, base_url: str = BASE_URL, *, reasoning_echo: ReasoningEcho = "calls", **options: Unpack[HTTPOptions]
    ) -> None:
        if base_url == BASE_URL and options.get("api_key") is None and options.get("api_key_env") is None:
            options["api_key_env"] = API_KEY_ENV
        super().__init__(base_url, reasoning_echo=reasoning_echo, **options)
