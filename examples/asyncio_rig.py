"""A toy driver on asyncio behind the rig protocol: no treadle drives it, and still it keeps the core of the contract.

treadle conform --rig "python examples/asyncio_rig.py" --profile core
"""

import asyncio

from treadle_specs.rigkit import Refused, Rig, assistant, main, result, user


class Toy(Rig):
    name, version, features = "asyncio-toy", "1", ("streamed-text", "started-calls", "steer", "queue")

    def __init__(self):
        super().__init__()
        self.history, self.texts, self.pressing, self.recorded, self.claimed = [], {}, set(), set(), []
        self.turn = self.step = 0
        self.calls, self.streamed, self.stage = [], "", ""
        self.latched = self.disposing = self.keep = False
        self.cause = self.task = None

    # --- what may be asked ---

    def do_deliver(self, request):
        one, box, wakes = request["message"]["id"], request["target"], request["wakeup"]
        if self.disposing:
            raise Refused("disposed")
        if one in self.recorded or one in self.claimed or one in self.boxes["next-turn"] + self.boxes["next-step"]:
            raise Refused("duplicate-message")
        if self.cause and wakes:
            box, self.latched = "next-turn", True
        self.texts[one] = request["message"]["text"]
        self.splice(box, len(self.boxes[box]), 0, [one])
        self.pressing |= {one} if wakes and box == "next-step" else set()
        if wakes and not self.running:
            self.start()

    def do_cancel(self, request, cause=None):
        if self.disposing and cause is None:
            return
        if not request.get("keep_inbox"):
            self.latched = False
            for box in ("next-step", "next-turn"):
                self.splice(box, 0, len(self.boxes[box]), outcome="canceled")
        if self.running and self.cause is None:
            self.cause, self.keep = cause or request.get("cause", "user"), request.get("keep_inbox", False)
            self.hide_gates()
            self.note("cancel-requested", cause=self.cause)
            if self.stage:  # it has begun: a task that is cancelled before its first step would never end
                self.task.cancel()

    def do_dispose(self, request):
        if not self.disposing:
            self.do_cancel(request, "disposed")
            self.disposing = True
            if not self.running:
                self.note("disposed")

    # --- turns ---

    def start(self):
        self.running, self.latched, self.stage = True, False, ""
        self.note("status", status="running")
        self.open_turn()
        self.task = self.engine.spawn(self.drive())

    def open_turn(self):
        self.turn, self.step = self.turn + 1, 0
        self.log("turn/start", turn=self.turn)
        self.claim(1)

    def claim(self, turns=0):
        self.claimed += self.splice("next-step", 0, len(self.boxes["next-step"])) + self.splice("next-turn", 0, turns)
        self.pressing.clear()

    async def drive(self):
        try:
            self.stage = "turn"
            while not self.cause and await self.one_step():
                pass
        except asyncio.CancelledError:
            pass
        if self.cause:
            self.converge()
        self.running, self.cause, self.keep = False, None, False
        self.note("status", status="idle")
        if self.disposing:
            self.note("disposed")
        elif self.latched and self.boxes["next-turn"]:
            self.start()

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
        self.end_turn(reason="completed")
        if self.boxes["next-turn"]:
            self.open_turn()
        return bool(self.claimed)

    def end_turn(self, **reason):
        self.log("turn/end", turn=self.turn, **reason)
        self.claimed = []

    def record_claimed(self):
        for one in self.claimed:
            if one not in self.recorded:
                self.recorded.add(one)
                self.log("user/message", message=one, text=self.texts[one])
                self.history.append(user(self.texts[one]))

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
        self.calls.pop(0)
        self.stage = "step"
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
        if self.keep:
            self.record_claimed()
        self.end_turn(reason="aborted", cause=self.cause)


if __name__ == "__main__":
    main(Toy)
