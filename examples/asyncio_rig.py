"""A toy driver on asyncio behind the rig protocol: no treadle in it, and still it keeps the core of the contract.

    treadle conform --rig "python examples/asyncio_rig.py" --core

It knows turns, steps, one tool call after the other, steering, cancel and dispose; it has no hooks, no store, no
maintenance and no lifecycle states.
"""

import asyncio
import json
import sys


class Refused(Exception):
    """A request that changes nothing; its text is the code."""


class Stopped(Exception):
    """The turn was cancelled."""


class Toy:
    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.events, self.notices, self.history, self.gates = [], [], [], {}
        self.boxes = {"next-turn": [], "next-step": []}
        self.texts, self.pressing, self.recorded, self.claimed = {}, set(), set(), []
        self.turn = self.step = self.gate_count = 0
        self.calls, self.streamed, self.step_open, self.asking = [], "", False, False
        self.running = self.latched = self.disposing = self.keep = False
        self.cause = self.waiting = None

    # --- the log ---

    def log(self, kind, **fields):
        self.events.append({"type": kind, **fields})

    def note(self, name, **fields):
        self.notices.append({"name": f"agent/{name}", **fields})

    def splice(self, box, start, removed, inserted=(), outcome=None):
        gone = self.boxes[box][start : start + removed]
        if removed or inserted:
            self.boxes[box][start : start + removed] = inserted
            self.log(
                "agent/inbox/spliced", target=box, start=start, removed=removed, inserted=[*inserted], outcome=outcome
            )
        for one in inserted:
            self.note("inbox/inserted", message=one)
        for one in gone:
            self.pressing.discard(one)
            self.note("inbox/discarded" if outcome else "inbox/claimed", message=one)
        return gone

    # --- requests ---

    def do_hello(self, _):
        return {"protocol": 1, "driver": {"name": "asyncio-toy", "version": "1"}, "features": []}

    def do_open(self, _):
        return {}

    def do_deliver(self, request):
        one, box, wakes = request["message"]["id"], request["target"], request["wakeup"]
        if self.disposing:
            raise Refused("disposed")
        if one in self.recorded or one in self.claimed or any(one in pending for pending in self.boxes.values()):
            raise Refused("duplicate-message")
        if self.cause and wakes:
            box, self.latched = "next-turn", True
        self.texts[one] = request["message"]["text"]
        self.splice(box, len(self.boxes[box]), 0, [one])
        if wakes and box == "next-step":
            self.pressing.add(one)
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
            self.gates.clear()
            self.note("cancel-requested", cause=self.cause)
            if self.waiting and not self.waiting.done():
                self.waiting.set_exception(Stopped())

    def do_dispose(self, request):
        if not self.disposing:
            self.do_cancel(request, "disposed")
            self.disposing = True
            if not self.running:
                self.note("disposed")

    def do_settle(self, _):
        for _ in range(50):
            self.loop.run_until_complete(asyncio.sleep(0))
        told = {"events": self.events, "notices": self.notices, "gates": [*self.gates.values()], "state": None}
        self.events, self.notices = [], []
        inbox = {box: [*pending] for box, pending in self.boxes.items()}
        return {**told, "status": "running" if self.running else "idle", "inbox": inbox}

    def do_pass(self, request):
        if request.get("gate") not in self.gates or not self.waiting or self.waiting.done():
            raise Refused("no-such-gate")
        self.waiting.set_result(request)

    def do_flush(self, _):
        return {}

    do_close = do_flush

    # --- turns ---

    def start(self):
        self.running, self.latched = True, False
        self.note("status", status="running")
        self.open_turn()
        self.task = self.loop.create_task(self.drive())

    def open_turn(self):
        self.turn, self.step = self.turn + 1, 0
        self.log("turn/start", turn=self.turn)
        self.claim(len(self.boxes["next-step"]), 1)

    def claim(self, steps, turns=0):
        self.claimed += self.splice("next-step", 0, steps) + self.splice(
            "next-turn", 0, min(turns, len(self.boxes["next-turn"]))
        )

    def end_turn(self, **reason):
        self.log("turn/end", turn=self.turn, **reason)
        self.claimed = []

    async def drive(self):
        try:
            while await self.one_step():
                pass
        except Stopped:
            self.converge()
        self.running, self.cause, self.keep = False, None, False
        self.note("status", status="idle")
        if self.disposing:
            self.note("disposed")
        elif self.latched and self.boxes["next-turn"]:
            self.start()

    async def pause(self):
        await asyncio.sleep(0)
        if self.cause:
            raise Stopped

    async def one_step(self):
        """One step; returns whether another one follows."""
        await self.pause()
        self.step, self.step_open = self.step + 1, True
        self.log("step/start", turn=self.turn, step=self.step)
        self.record_claimed()
        await self.ask_model()
        owes = bool(self.calls)
        while self.calls:
            await self.run_call(self.calls[0])
        self.log("step/end", turn=self.turn, step=self.step)
        self.step_open = False
        if owes or self.pressing:
            self.claim(len(self.boxes["next-step"]))
            return True
        self.end_turn(reason="completed")
        if not self.boxes["next-turn"]:
            return False
        self.open_turn()
        return True

    def record_claimed(self):
        for one in self.claimed:
            if one not in self.recorded:
                self.recorded.add(one)
                self.log("user/message", message=one, text=self.texts[one])
                self.history.append({"role": "user", "text": self.texts[one], "calls": [], "results": []})

    async def gate(self, kind, **facts):
        if kind != "model" or not facts.pop("again"):
            self.gate_count += 1
        name = f"g{self.gate_count}"
        self.gates[name] = {"gate": name, "kind": kind, **facts}
        self.waiting = self.loop.create_future()
        answer = await self.waiting
        self.gates.pop(name, None)
        if self.cause:
            raise Stopped
        return answer

    async def ask_model(self):
        await self.pause()
        self.asking, self.streamed = True, ""
        again, end, asked = False, None, []
        while end is None:
            answer = await self.gate("model", again=again, turn=self.turn, step=self.step, messages=[*self.history])
            again = True
            for chunk in answer.get("chunks", []):
                self.streamed += chunk.get("text", "")
                asked += [chunk["call"]["id"]] if "call" in chunk else []
            end = answer.get("end")
        self.asking = False
        self.answered(asked)

    def answered(self, calls, *, interrupted=False):
        self.calls = [*calls]
        self.log("assistant/message", text=self.streamed, calls=calls, interrupted=interrupted)
        self.history.append({"role": "assistant", "text": self.streamed, "calls": calls, "results": []})

    async def run_call(self, call):
        await self.pause()
        self.log("tool/call", call=call)
        self.calls[0] = ""
        try:
            answer = await self.gate("tool", call=call, name="t", arguments="{}")
        except Stopped:
            self.result(call, error=True, code="ABORTED")
            raise
        self.result(call, error=answer.get("error", False), text=answer.get("text", ""))

    def result(self, call, **fields):
        self.calls.pop(0)
        self.log("tool/result", call=call, **fields)
        self.history.append({"role": "user", "text": "", "calls": [], "results": [call]})

    def converge(self):
        if self.asking:
            self.answered([], interrupted=True) if self.streamed else self.log("assistant/attempt")
        self.asking = False
        while self.calls:
            call = self.calls[0]
            self.log("tool/call", call=call)
            self.result(call, error=True, code="ABORTED_BEFORE_DISPATCH")
        if self.step_open:
            self.log("step/end", turn=self.turn, step=self.step)
            self.step_open = False
        if self.keep:
            self.record_claimed()
        self.end_turn(reason="aborted", cause=self.cause)


def main():
    toy = Toy()
    for line in sys.stdin:
        request = json.loads(line)
        reply = {"id": request.get("id"), "ok": True}
        try:
            verb = getattr(toy, "do_" + str(request.get("do")), None)
            if verb is None:
                raise Refused("unsupported")
            reply |= verb(request) or {}
        except Refused as why:
            reply |= {"ok": False, "error": {"code": str(why), "message": str(why)}}
        print(json.dumps(reply), flush=True)
        if request.get("do") == "close":
            return


if __name__ == "__main__":
    main()
