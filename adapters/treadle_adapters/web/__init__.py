"""Agents behind HTTP: resources, streams that survive, many sessions on one socket; for products and for a browser.

May import: the core, Starlette, and hypercorn where it is used. Needs the extra ``web``.
"""

from .access import made_token
from .app import Web, app
from .desk import Maintenance, Owner
from .limits import DEFAULT_LIMITS, Limits
from .pictures import Pictures
from .serving import serve

__all__ = ["DEFAULT_LIMITS", "Limits", "Maintenance", "Owner", "Pictures", "Web", "app", "made_token", "serve"]
