"""How a rig refuses a request, and how a tool learns that it is to fail."""

from __future__ import annotations


class Refused(Exception):
    """A request is refused, and changes nothing.

    Args:
        code: a code of the protocol.
        message: why, for people; the code unless given.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


class Unsupported(Refused):
    """The driver has no word for it.

    Args:
        message: what it lacks.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__("unsupported", message)


class ToolError(Exception):
    """The tester wants the tool to end with an error, whose text this is."""
