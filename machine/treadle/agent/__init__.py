"""The public handle of an agent and what its owner holds: inbox, receipts, options, maintenance, its creation and end.

An agent sees what drives it as an ``Engine``. May import: all rooms but ``loop``, ``host``, ``asyncio``.
"""
