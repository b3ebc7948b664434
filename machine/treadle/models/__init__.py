"""Where answers come from: the interface of an adapter, the routes to adapters, and how a stream becomes a message.

May import: the root, ``words``.
"""
