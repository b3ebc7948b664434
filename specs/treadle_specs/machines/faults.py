"""Faults to plant in shell, pipeline, presets and write path: each must be caught by a machine, within its budget."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Literal, cast

from treadle import Agent, Receipt
from treadle.extensions.compaction import Ledger, ranges
from treadle.extensions.compaction.installed import Installed
from treadle.host import subagent
from treadle.host.presets.revisions import Revision
from treadle.kernel import effects as fx
from treadle.loop import admission, factory, outbox, pipeline, request, retry, runner, scheduler
from treadle.loop.attempt import Attempt
from treadle.loop.attempt_frames import Frames
from treadle.loop.convergence import Convergences
from treadle.loop.driver import Driver
from treadle.loop.flushes import Flushes
from treadle.loop.life import Life
from treadle.loop.outbox import Outbox
from treadle.loop.runner import Runner
from treadle.loop.scheduler import Crew
from treadle.presets import Lease, Presets
from treadle.session import BatchWriter
from treadle.session.repair import EndOfLog

from ..conformance.faults import Fault, Patch

Seer = Literal["host machine", "writer machine"]


def altered(owner: Any, name: Any, old: str, new: str) -> Callable[[], list[Patch]]:
    """A patch that gives ``owner.name`` other source: ``old`` stands in it exactly once, and becomes ``new``.

    The owner is who looks the function up when it is called: a class, a module that imported it, or a table.

    Raises:
        LookupError: it does not: the fault would not be planted.
    """

    def patches() -> list[Patch]:
        table = cast("dict[Any, Any]", owner if type(owner) is dict else vars(owner))
        held: Any = table[name]
        getter: Any = getattr(held, "fget", None)
        function: Any = inspect.unwrap(held if getter is None else getter)
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(old) != 1:
            raise LookupError(f"{name}: {source.count(old)} places read {old!r}")
        made: dict[str, Any] = {}
        text = "from __future__ import annotations\n" + source.replace(old, new)
        code = compile(text, f"<fault in {name}>", "exec", dont_inherit=True)
        exec(code, function.__globals__, made)  # noqa: S102  # that is how a fault is planted
        return [(owner, name, made[function.__name__])]

    return patches


def _fault(seen_by: Seer, name: str, rules: str, owner: Any, place: Any, old: str, new: str) -> Fault:
    return Fault(name, tuple(rules.split()), patches=altered(owner, place, old, new), seen_by=seen_by)


RUN: Any = runner._RUN  # pyright: ignore[reportPrivateUsage]  # the fault's place
HOST: Seer = "host machine"
WRITER: Seer = "writer machine"

FAULTS: tuple[Fault, ...] = (
    _fault(HOST, "one convergence ends the watch over all", "C10", Convergences, "over",
           "if not self._watched and self._scope is not None:", "if self._scope is not None:"),
    _fault(HOST, "a convergence that is over is watched on", "C10", Convergences, "over",
           "self._watched.pop(convergence, None)", "pass"),
    _fault(HOST, "a listener counts as the turn's own code", "D4", Runner, "own",
           "return self.runs(CURRENT.get()) and not self._outbox.telling", "return self.runs(CURRENT.get())"),
    _fault(HOST, "a stale release frees a newer reservation", "D8", Agent, "reserve_turn_admission",
           "if not released:", "if True:"),
    _fault(HOST, "a context is recorded again at a resume", "Q2", factory, "restore_requests",
           "end.header, end.context,", "end.header, None,"),
    _fault(HOST, "a resume is said again with each request", "Q2", request, "_prepared",
           "state.fresh, state.override = False, None", "state.override = None"),
    _fault(HOST, "a rebound agent does not hold its revision", "O9 O12", Presets, "_rebind",
           "    revision.hold()\n    return lambda", "    return lambda"),
    _fault(HOST, "a bound agent never lets go of its revision", "O12", Presets, "_bind",
           "scope.defer(lambda: self._unbind(scope))", "pass"),
    _fault(HOST, "a lease is let go of twice", "O12", Lease, "release", "self._released = True", "pass"),
    _fault(HOST, "a retired revision waits for nobody", "O12", Revision, "end_if_unused",
           "if self.retired and not self.holders:", "if self.retired:"),
    _fault(HOST, "a waiting call is not classified again", "K4", Crew, "_start_next",
           "parallel = self._is_parallel(prepared)",
           "parallel = prepared.arguments.get('\\0') if '\\0' in prepared.arguments else "
           "prepared.arguments.setdefault('\\0', self._is_parallel(prepared))"),
    _fault(HOST, "a parallel call ignores one that runs alone", "K4", Crew, "_start_next",
           "if not schedule.may_start(parallel):", "if not parallel and not schedule.may_start(parallel):"),
    _fault(HOST, "a finished body wakes nobody", "K5", Crew, "_body", "self._wake.set()", "pass"),
    _fault(HOST, "a cancelled tool's real result is dropped", "K6 C4", Crew, "_body",
           "if isinstance(ended, Result):", "if isinstance(ended, Result) and self._activity.cancelled:\n"
           "        ended = i.LetThrough(started)\n    elif isinstance(ended, Result):"),
    _fault(HOST, "a shielded wrapper starts a body after the cancel", "K6 C10", pipeline, "_wrapped",
           "if activity.cancelled:", "if False:"),
    _fault(HOST, "guards are not asked", "K2", scheduler, "clear", "for guard in watchers:", "for guard in ():"),
    _fault(HOST, "a tool has twice its time", "K1", scheduler, "run_body",
           "trio.move_on_after(tool.timeout)", "trio.move_on_after(2 * tool.timeout)"),
    _fault(HOST, "a call runs before the system has it", "P4", factory, "persist",
           "await writer.written()", "pass"),
    _fault(HOST, "a retry does not wait as long as it says", "Q6", retry.Retries, "__call__",
           "await trio.sleep(delay)", "await trio.sleep(delay / 2)"),
    _fault(HOST, "a provider's long wait is waited for", "Q6", retry, "delay_of",
           "if asked is not None and asked > policy.max_delay:", "if False:"),
    _fault(HOST, "who waits for rest is not woken", "L6", Driver, "wake_waiters",
           "waiters.set()", "pass"),
    _fault(HOST, "the last flush tells nobody", "L6 P8", Flushes, "_flush", "self._over()", "pass"),
    _fault(HOST, "a receipt is not told of a rejection", "D8", Receipt, "reach",
           "if self._fate is None:", "if self._fate is None and not isinstance(fate, Rejected):"),
    _fault(HOST, "what a listener causes is told in between", "H4", Outbox, "later",
           "if not self.telling:", "if True:"),
    _fault(HOST, "a listener that was taken out hears on", "H3", outbox, "emit", "if listener.alive:", "if True:"),
    _fault(HOST, "frames are not counted", "Q9", Frames, "chunk", "self._index = index + 1", "pass"),
    _fault(HOST, "a parent is gone before its children", "O6", Life, "_unwind",
           "for child in self._below:", "for child in ():"),
    _fault(HOST, "a disposal drops what it is to keep", "O4", Life, "dispose",
           "driver.dispose(keep_inbox, drained.set)", "driver.dispose(False, drained.set)"),
    _fault(HOST, "a tool's child is left behind", "O6", subagent.Delegation, "__call__",
           "await handle.dispose()", "pass"),
    _fault(HOST, "turns are counted anew after a resume", "L4", EndOfLog, "take",
           "self._turn = max(self._turn, data.turn)", "pass"),
    _fault(HOST, "a task that fails unseen is not told", "N8", RUN, fx.Maintain,
           "if task.unseen is not None:", "if False:"),
    _fault(HOST, "a pinned message gives way", "Z2", ranges, "_keeps", "return bool(", "return False and bool("),
    _fault(HOST, "the system prompt gives way", "Z2", ranges, "_kept",
           "return {*[node.seq for node in system[:1]], *live[-1:], *", "return {*"),
    _fault(HOST, "the last turn gives way", "Z2", Ledger, "recent",
           "else self._turns + int(speaking)", "else int(speaking)"),
    _fault(HOST, "a cancelled compaction takes place", "Z4", Installed, "_compact",
           "await trio.lowlevel.checkpoint_if_cancelled()", "pass"),
    _fault(HOST, "a summary is as long as it likes", "Z4", Installed, "_summary",
           "> limit and len(text)", "> limit and not len(text)"),
    _fault(HOST, "each refusal is tried again", "Z6", Installed, "after_failure",
           "if keeper.retried == (failed.turn, failed.step):", "if False:"),
    _fault(HOST, "a compaction with instructions joins another", "Z1", Installed, "__call__",
           "if keeper.running is not None and instructions is None:", "if keeper.running is not None:"),
    _fault(HOST, "a refused duplicate loses the first receipt", "D8", Driver, "deliver",
           "receipts[message.id] = known", "receipts.pop(message.id, None)"),
    _fault(HOST, "fates are told before the turn's end is on disk", "P8", Driver, "_turn_ended",
           "receipt.hold_for(flushed.wait)", "pass"),
    _fault(HOST, "an agent is quiet while it flushes", "P8 L6", Driver, "quiet",
           " or (flushes is not None and flushes.under_way)", ""),
    _fault(HOST, "a listener that leaves keeps others from hearing", "H5", Outbox, "drain",
           "leaving = leaving or error", "leaving = leaving or error\n                break"),
    _fault(HOST, "only the oldest flush is waited for", "P8 D9", Flushes, "wait",
           "list(self._under_way)", "list(self._under_way)[:1]"),
    _fault(HOST, "one retry too many", "Q6", retry, "delay_of", "retries >= policy", "retries > policy"),
    _fault(HOST, "the retries of earlier steps count", "Q6", RUN, fx.Request,
           "if operation.attempt == 1:\n        state.prior", "if operation.attempt == operation.step == 1:\n        state.prior"),
    _fault(HOST, "what came after the cancel is kept", "C5", Attempt, "cut_off", "recorder.thaw_into_past()", "pass"),
    _fault(HOST, "a hook's signal is not set by a cancel", "C3 H9", admission, "_submit",
           "activity.when_cancelled = stop", "pass"),
    _fault(HOST, "a warning waits for an earlier convergence", "C10", Convergences, "watch", "self._scope.cancel()", "return"),
    _fault(HOST, "what clean-ups record is not stored", "O4", Life, "_close",
           "await agent.scope.close(", "agent.session.mirror(None)\n    await agent.scope.close("),
    _fault(HOST, "children lose what their parent keeps", "O4 O6", Life, "dispose",
           "end_children(self.agent, keep_inbox)", "end_children(self.agent, False)"),
    _fault(HOST, "a failed creation leaves its session", "O13", factory.LoopFactory, "_all_or_nothing",
           "await remove(self._host.store, life.agent.session.id)", "pass"),
    _fault(HOST, "a refused resume keeps the lock", "O13 P2", factory.LoopFactory, "resume", "await let_go(opened.writer)", "pass"),
    _fault(HOST, "whatever is true approves", "K2", pipeline, "_ask", "is True:", ":"),
    _fault(HOST, "a result is told before it is recorded", "H4", scheduler, "finish", "outbox.after_commit(", "outbox.later("),
    _fault(HOST, "a result that comes with the time limit is lost", "K1 K6", scheduler, "run_body",
           "tool.is_async or not limit", "not limit"),
    _fault(HOST, "a blocked result loses what was said beside it", "K11", pipeline, "_decided",
           'replace(error_result(decision.reason, "BLOCKED"), contexts=contexts)', 'error_result(decision.reason, "BLOCKED")'),
    _fault(HOST, "arguments that a hook made are not checked", "K3", pipeline, "_pre_execute",
           "return _misfit(prepared.tool, prepared.arguments)", "return None"),
    _fault(HOST, "a classifier that breaks is parallel", "K4", Crew, "_is_parallel", "return False", "return True"),
    _fault(HOST, "guards see other arguments than will run", "K2", scheduler, "clear",
           "guard(evolve(proposal, arguments=prepared.arguments))", "guard(proposal)"),
    _fault(HOST, "a declared revision ends with its last agent", "O12", Revision, "end_if_unused",
           "self.retired and not self.holders", "not self.holders"),
    _fault(WRITER, "who waits for a write is not woken", "P1", BatchWriter, "_write",
           "self._turn.unpark_all()", "pass"),
    _fault(WRITER, "a failed batch goes to the end of the queue", "P1 N6", BatchWriter, "_write",
           "self._queue[:0] = queue", "self._queue.extend(queue)"),
    _fault(WRITER, "a failed batch is forgotten", "P1", BatchWriter, "_write", "self._queue[:0] = queue", "pass"),
    _fault(WRITER, "what is written counts as durable", "P1 P7", BatchWriter, "_write",
           "    if durable:\n        self._durable", "    if True:\n        self._durable"),
    _fault(WRITER, "a cancelled barrier tears its batch", "P1", BatchWriter, "_write",
           "trio.CancelScope(shield=True)", "trio.CancelScope()"),
    _fault(WRITER, "two write at once", "P1", BatchWriter, "_reach", "if self._busy:", "if False:"),
    _fault(WRITER, "a lost lock is tried again", "P2", BatchWriter, "_failed", "self._stopped = error", "pass"),
    _fault(WRITER, "closing keeps the lock when it fails", "P1", BatchWriter, "close",
           "            finally:\n", "            except trio.Cancelled:\n                raise\n            else:\n"),
    _fault(WRITER, "closing leaves the last batch", "P1", BatchWriter, "close",
           "try:\n                await self._reach(self._accepted, durable=True)", "try:\n                pass"),
    _fault(WRITER, "a failing background tells at every window", "N8", BatchWriter, "_tick",
           "if not self._failing and self._report is not None:", "if self._report is not None:"),
    _fault(WRITER, "a failed background write is the last", "P1", BatchWriter, "_tick",
           "    self._ticking = False", "    self._ticking = self._failing"),
    _fault(WRITER, "a full batch waits for its window", "P1", BatchWriter, "add",
           "self._hurry.set()", "pass"),
    _fault(WRITER, "the background syncs", "P7", BatchWriter, "_tick", "durable=False", "durable=True"),
)  # fmt: skip
"""The faults that the project's own tests plant."""
