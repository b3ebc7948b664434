"""Local tools: files of one folder, and commands run in it. All else comes from servers of tools (``treadle_adapters.mcp``)."""

from .files import EditMisfit, NotText
from .folder import Folder, NoSuchFile, OutsideFolder
from .local import KINDS, LocalTools

__all__ = ["KINDS", "EditMisfit", "Folder", "LocalTools", "NoSuchFile", "NotText", "OutsideFolder"]
