"""The shell: performs the kernel's effects and runs one operation at a time.

The ``driver`` feeds the kernel; the operations (admission, request, attempt, tools, turn end) know only an ``Activity``;
the ``factory`` makes agents that a driver drives. May import: all rooms but ``host`` and ``asyncio``.
"""
