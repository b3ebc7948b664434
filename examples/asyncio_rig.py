"""A toy driver on asyncio behind the rig protocol: no treadle drives it, and still it keeps the core of the contract.

treadle conform --rig "python examples/asyncio_rig.py" --profile core
"""

import asyncio
from collections.abc import Sequence

from treadle_specs.rigkit import InboxRig, assistant, main, result


class Toy(InboxRig):
    name, version, features = "asyncio-toy", "1", ("streamed-text", "started-calls", "steer", "queue")
    calls: Sequence[str] = ()
    streamed = stage = ""

    async def drive(self):
        self.begun, self.stage = True, "turn"
        try:
            while not self.cause and await self.one_step():
                pass
        except asyncio.CancelledError:
            pass
        if self.cause:
            self.converge()
        self.finished()

    async def one_step(self):
        """One step; returns whether another one follows."""
        self.step, self.stage = self.step + 1, "step"
        self.log("step/start", turn=self.turn, step=self.step)
        self.record_claimed()
        await self.ask_model()
        owes = bool(self.calls)
        while self.calls:
            await self.run_call(self.calls[0])
        self.log("step/end", turn=self.turn, step=self.step)
        self.stage = "turn"
        if owes or self.pressing:
            self.claim()
            return True
        return self.end_turn(reason="completed")

    async def ask_model(self):
        self.streamed, self.stage, asked, answer = "", "model", [], {"gate": ""}
        while answer.get("end") is None:
            facts = {"turn": self.turn, "step": self.step, "attempt": 1, "messages": [*self.history]}
            answer = await self.gate("model", name=answer["gate"], **facts)
            self.streamed += "".join([chunk.get("text", "") for chunk in answer["chunks"]])
            asked += [chunk["call"]["id"] for chunk in answer["chunks"] if "call" in chunk]
        self.answered(asked)

    def answered(self, calls, *, interrupted=False):
        self.calls, self.stage = [*calls], "step"
        self.log("assistant/message", text=self.streamed, calls=calls, interrupted=interrupted)
        self.history.append(assistant(self.streamed, calls))

    async def run_call(self, call):
        self.log("tool/call", call=call)
        self.stage = "call"
        answer = await self.gate("tool", call=call, as_name="t", arguments="{}")
        self.result(call, error=answer.get("error", False), text=answer.get("text", ""))

    def result(self, call, **fields):
        self.calls, self.stage = self.calls[1:], "step"
        self.log("tool/result", call=call, **fields)
        self.history.append(result(call))

    def converge(self):
        """Close what a cancel left open."""
        if self.stage == "model":
            self.answered([], interrupted=True) if self.streamed else self.log("assistant/attempt")
        if self.stage == "call":
            self.result(self.calls[0], error=True, code="ABORTED")
        while self.calls:
            self.log("tool/call", call=self.calls[0])
            self.result(self.calls[0], error=True, code="ABORTED_BEFORE_DISPATCH")
        if self.stage != "turn" and self.step:
            self.log("step/end", turn=self.turn, step=self.step)
        self.stage = ""
        self.end_turn(reason="aborted", cause=self.cause)


if __name__ == "__main__":
    main(Toy)
