"""A driver that keeps the fair profile, or breaks one rule of it: ``python toy.py [RULE]``."""

import asyncio
import sys

from treadle_specs.rigkit import FrameworkRig, ToolError, assistant, main, result, user

WRONG = sys.argv[1] if len(sys.argv) > 1 else ""


class Toy(FrameworkRig):
    name, version = "fair-toy", WRONG or "right"
    promised = () if WRONG == "modest" else ("streamed-text", "started-calls", "steer", "queue")

    def open(self, tools):
        del tools
        self.history, self.steering, self.queued = [], [], []
        self.finished = set()

    def steer(self, text):
        self.steering.append(text)

    def queue(self, text):
        (self.steering if WRONG == "F14" else self.queued).append(text)

    def cancel(self):
        self.steering, self.queued = [], []
        if WRONG != "F5":
            self.task.cancel()

    async def turn(self, text):
        self.before = len(self.history)
        self.history.append(user(text))
        try:
            await self.work()
        except asyncio.CancelledError:
            self.cancelled_with(text)
            raise
        if WRONG == "F6" and len(self.history) > 5:
            self.engine.spawn(self.ask())

    def cancelled_with(self, text):
        if WRONG == "F4":
            self.history.remove(user(text))
        if WRONG in ("F7", "F9"):
            gone = [one for one in self.history[self.before :] if one["results"]]
            self.history = [one for one in self.history if one not in gone]
            if WRONG == "F7":
                for one in self.history:
                    one["calls"] = [call for call in one["calls"] if result(call) not in gone]
        if WRONG == "told":
            for one in self.history[self.before :]:
                one.update({"outputs": ["aborted"]} if one["results"] else {})
        if WRONG == "F12":
            asked = {call for one in self.history for call in one["calls"]}
            for one in self.history:
                one["calls"] = [call for call in one["calls"] if call in self.finished]
            self.history = [one for one in self.history if not (asked - self.finished).intersection(one["results"])]

    async def work(self):
        while True:
            calls = await self.ask()
            self.history += [result(call["id"]) for call in calls]
            await asyncio.gather(*[self.call(call) for call in calls])
            late = WRONG == "F13" and calls
            if self.steering and not late:
                taken, self.steering = self.steering, []
                if WRONG == "F1" and not calls:
                    return
                self.history += [user(text) for text in (reversed(taken) if WRONG == "F3" else taken)]
                self.history += [user(text) for text in taken if WRONG == "F2"]
            elif not calls and self.queued:
                self.history.append(user(self.queued.pop(0)))
            elif not calls:
                return

    async def ask(self):
        text, calls = "", []
        try:
            async for chunk in self.model(self.history):
                text += chunk.get("text", "")
                calls += [chunk["call"]] if "call" in chunk else []
        except asyncio.CancelledError:
            if text and WRONG != "F11":
                self.history.append(assistant(text))
            raise
        self.history.append(assistant(text, [call["id"] for call in calls]))
        return calls

    async def call(self, call):
        for _ in range(2 if WRONG == "F8" else 1):
            try:
                await self.tool(call["id"], call["name"])
            except ToolError:
                if WRONG == "F10":
                    await asyncio.Event().wait()
        self.finished.add(call["id"])


if __name__ == "__main__":
    main(Toy)
