"""Other processes for the tests of the PostgreSQL store.

child.py hold URL SCHEMA SESSION     open the session for writing, say so, wait
child.py forked URL SCHEMA SESSION   the same, then fork a child that lives on, and name it
"""

import os
import signal
import sys

import trio

from treadle_adapters.stores.postgres import PostgresStore


async def hold(what: str, url: str, schema: str, session_id: str) -> None:
    store = PostgresStore(url, schema=schema)
    await store.open_write(session_id)
    child = os.fork() if what == "forked" else None
    if child == 0:
        signal.pause()
    print("ready" if child is None else child, flush=True)
    await trio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    what, url, schema, session_id = sys.argv[1:]
    trio.run(hold, what, url, schema, session_id)
