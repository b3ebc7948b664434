"""A rig for a framework without an event log: what is told of it is its model requests, its tool starts and its status.

Subclasses say how a run is made, and of cancel, steering and a queue what the framework has; the framework's model is
replaced by one that goes through ``model``, and its tools by ones that go through ``tool``.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

from .refusals import Refused, ToolError, Unsupported
from .rig import Engine, Json, Rig

BEYOND = ("dispose", "inbox", "listen", "maintain", "reserve", "release", "update")
"""Verbs that nothing is asked of in the fair profile."""


class FrameworkRig(Rig):
    """One conversation with an agent of a framework.

    Attributes:
        promised: what the framework's documentation promises beyond what is fair to ask of any: ``streamed-text``,
            ``started-calls``, ``steer``, ``queue``; told as features.
        task: of the run.
        cancelled: whether the run is being cancelled.
    """

    promised: tuple[str, ...] = ()

    def __init__(self, engine: Engine | None = None) -> None:
        super().__init__(engine)
        own = type(self)
        without = [word for word in ("cancel", "steer", "queue") if getattr(own, word) is getattr(FrameworkRig, word)]
        self.lacks = (*own.lacks, *without, *BEYOND)
        self.features = (*own.features, *own.promised)
        self.task: Any = None
        self.cancelled = self._begun = False
        self._turn = self._step = 0

    # --- what an author writes ----------------------------------------------------------------------------------------

    def open(self, tools: list[Json]) -> None:
        """Make the agent.

        Args:
            tools: each with ``name`` and ``mode``: ``parallel`` or ``exclusive``.
        """
        raise NotImplementedError

    async def turn(self, text: str) -> None:
        """One run, to its end; whatever the next one has to know of it is kept, also when it is cancelled.

        It begins in the settle after the delivery: ``steer`` and ``queue`` may be called before it, and ``text`` comes
        first all the same.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop the run, the way the framework documents."""
        raise Unsupported("no cancel")

    def steer(self, text: str) -> None:
        """A message into the run, before its next model request."""
        del text
        raise Unsupported("no steering")

    def queue(self, text: str) -> None:
        """A message for when the run has nothing else to do."""
        del text
        raise Unsupported("no queue")

    # --- what the agent's model and tools call ------------------------------------------------------------------------

    async def model(self, messages: Iterable[Json]) -> AsyncIterator[Json]:
        """A model request: yields the chunks of the answer, ``{"text": …}`` and ``{"call": {…}}``.

        Args:
            messages: made by ``user``, ``assistant`` and ``result``.

        Raises:
            RuntimeError: the model fails.
        """
        self._step += 1
        name, told = "", list(messages)
        while True:
            answer = await self.gate("model", name=name, turn=self._turn, step=self._step, attempt=1, messages=told)
            name = answer["gate"]
            for chunk in answer.get("chunks", []):
                yield chunk
                await self.engine.pause()
            end: Any = answer.get("end")
            if isinstance(end, dict):
                raise RuntimeError(f"the model fails: {end}")  # noqa: TRY004 (the model fails)
            if end is not None:
                return

    async def answer(self, messages: Iterable[Json]) -> tuple[str, list[Json]]:
        """A model request of a framework that does not stream: the whole text and the calls."""
        text, calls = "", list[Json]()
        async for chunk in self.model(messages):
            text += chunk.get("text", "")
            calls += [chunk["call"]] if "call" in chunk else []
        return text, calls

    async def tool(self, call: str, name: str, arguments: str = "{}") -> str:
        """A tool runs: its text.

        Raises:
            ToolError: it is to end with an error.
            RuntimeError: it is to raise.
        """
        answer = await self.gate("tool", call=call, as_name=name, arguments=arguments)
        if "raise" in answer:
            raise RuntimeError(answer["raise"])
        if answer.get("error"):
            raise ToolError(answer.get("text", ""))
        return str(answer.get("text", ""))

    # --- verbs --------------------------------------------------------------------------------------------------------

    def do_open(self, request: Json) -> None:
        """Begin."""
        super().do_open(request)
        self.open(request.get("tools", []))

    def do_deliver(self, request: Json) -> None:
        """A message: a run, or into the run."""
        text = request["message"]["text"]
        if not request.get("wakeup", True):
            raise Unsupported("no message without a run")
        if not self.running:
            self._begin(text)
        elif self.cancelled:
            raise Refused("busy", "the run is being cancelled")
        elif request["target"] == "next-step":
            self.steer(text)
        else:
            self.queue(text)

    def do_cancel(self, _: Json) -> None:
        """Stop the run; nothing happens when there is none."""
        if not self.running or self.cancelled:
            return
        if self._begun:
            self.cancel()
        self.cancelled = True
        self.hide_gates()

    def _begin(self, text: str) -> None:
        self.running, self.cancelled, self._begun = True, False, False
        self._turn, self._step = self._turn + 1, 0
        self.note("status", status="running")
        self.log("turn/start", turn=self._turn)
        self.task = self.engine.spawn(self._whole(text))

    async def _whole(self, text: str) -> None:
        """A run from its first to its last step; a task that is cancelled before its first step would never end."""
        reason: Json = {"reason": "completed"}
        self._begun = True
        try:
            if not self.cancelled:
                await self.turn(text)
        except Exception as error:
            sys.stderr.write(f"the run ended: {error!r}\n")
            reason = {"reason": "error", "code": type(error).__name__}
        finally:
            self.running = False
            self.log(
                "turn/end", turn=self._turn, **({"reason": "aborted", "cause": "user"} if self.cancelled else reason)
            )
            self.note("status", status="idle")


def user(text: str) -> Json:
    """A message of the user, as a request has it."""
    return {"role": "user", "text": text, "calls": [], "results": []}


def assistant(text: str, calls: Iterable[str] = ()) -> Json:
    """An answer of the model, with the ids of the calls that it asks for."""
    return {"role": "assistant", "text": text, "calls": list(calls), "results": []}


def result(call: str, text: str | None = None) -> Json:
    """The result of a call, with what the model is told of it where that can be said."""
    told: Json = {"role": "user", "text": "", "calls": [], "results": [call]}
    return told if text is None else {**told, "outputs": [text]}
