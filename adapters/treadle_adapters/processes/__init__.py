"""Child processes that leave nothing behind: each with a process group of its own, and an environment of named variables."""

from .group import INHERITED, ProcessGroup, environment

__all__ = ["INHERITED", "ProcessGroup", "environment"]
