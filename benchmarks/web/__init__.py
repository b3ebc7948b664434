"""What serving agents costs: a server in a process of its own, and clients that only read. See ``figures`` and ``load``."""
