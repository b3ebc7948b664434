"""What a session's log tells: the walked path, the transcript, what became of each message, what took time.

Nothing here knows how it will be shown. It may import ``drawing`` and, for walks, ``lifecycle``.
"""
