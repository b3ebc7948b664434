"""The rig: hosts agents of this driver in a stepped run and lets a tester steer them over stdin and stdout."""

from .desk import Desk
from .wire import main

__all__ = ["Desk", "main"]
