"""A driver on trio behind the kit."""

import trio

from treadle_specs.rigkit import FrameworkRig, assistant, main, result, user
from treadle_specs.rigkit.on_trio import OnTrio


class Toy(FrameworkRig):
    name, version = "trio-toy", "1"

    def __init__(self):
        super().__init__(OnTrio())

    def open(self, tools):
        self.history = []

    async def turn(self, text):
        with trio.CancelScope() as self.scope:
            self.history.append(user(text))
            while calls := await self.ask():
                self.history += [result(call["id"]) for call in calls]
                await trio.to_thread.run_sync(lambda: None)
                async with trio.open_nursery() as nursery:
                    for call in calls:
                        nursery.start_soon(self.call, call)

    async def ask(self):
        text, calls = await self.answer(self.history)
        self.history.append(assistant(text, [call["id"] for call in calls]))
        return calls

    async def call(self, call):
        await self.tool(call["id"], call["name"])

    def cancel(self):
        self.scope.cancel()


if __name__ == "__main__":
    main(Toy)
