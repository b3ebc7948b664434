"""Tokens that providers reported: by name, and for people."""

from __future__ import annotations

from treadle.models import Usage


def usage_fields(usage: Usage) -> dict[str, int]:
    """The counts that a provider reported, by name."""
    named = {name: getattr(usage, name) for name in usage.__struct_fields__}
    return {name: count for name, count in named.items() if count is not None}


def usage_text(usage: Usage | None) -> list[str]:
    """Token counts for people; what was not reported is not shown."""
    names = {
        "input_tokens": "in",
        "output_tokens": "out",
        "cache_read_tokens": "cached",
        "cache_write_tokens": "to cache",
        "reasoning_tokens": "reasoning",
    }
    given = usage_fields(usage) if usage is not None else {}
    told = [f"{given[name]:,} {word}{_share(name, given)}" for name, word in names.items() if name in given]
    return ["tokens: " + ", ".join(told)] if told else []


def _share(name: str, given: dict[str, int]) -> str:
    """What part of the input was found in caches."""
    if name != "cache_read_tokens" or not given[name] or not given.get("input_tokens"):
        return ""
    return f" ({min(1.0, given[name] / given['input_tokens']):.0%})"
