"""A driver that waits for something of its own before it asks the model: ``python odd_toy.py WAY``."""

import asyncio
import os
import socket
import sys
import threading
import time

from treadle_specs.rigkit import FrameworkRig, assistant, main, user


async def wait(way):
    loop = asyncio.get_running_loop()
    match way:
        case "thread":
            await asyncio.to_thread(time.sleep, 0.05)
        case "executor":
            await loop.run_in_executor(None, time.sleep, 0.05)
        case "socket":
            left, right = socket.socketpair()
            left.setblocking(False)
            threading.Timer(0.05, right.send, [b"x"]).start()
            await loop.sock_recv(left, 1)
        case "timer":
            await asyncio.sleep(3)
        case "yields":
            for _ in range(500):
                await asyncio.sleep(0)
        case "prints":
            print("not a reply")
        case "exits":
            os._exit(3)


class Toy(FrameworkRig):
    name, version = "odd-toy", "1"

    def open(self, tools):
        del tools

    async def turn(self, text):
        if sys.argv[1] == "timeout":
            await asyncio.wait_for(self.answer([user(text)]), 1)
        await wait(sys.argv[1])
        await self.answer([user(text), assistant("done")])


if __name__ == "__main__":
    main(Toy)
