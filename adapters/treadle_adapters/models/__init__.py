"""Models over HTTP: each module holds one kind of provider.

``openai_chat`` (OpenAI's chat completions and the many servers that speak it), ``deepseek``, ``anthropic`` and
``openai_responses``. They need the ``models`` extra (httpx and httpx-sse).
"""
