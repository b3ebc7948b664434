"""The reference of codes: each error that is raised, each failure that ends a turn, each result of a tool, each answer over HTTP.

A code is stable, its text is not. What a code means stands in the code where it can (the docstrings of error classes); what
to do about it stands here, and a test holds that none lacks.
"""

from __future__ import annotations

import inspect

from attrs import frozen

from treadle import TreadleError, errors
from treadle.models import ModelFailure
from treadle_adapters.mcp import Unavailable
from treadle_adapters.mcp.reading import ServerRefused
from treadle_adapters.tools import EditMisfit, NoSuchFile, NotText, OutsideFolder
from treadle_specs.exploration.promela import SpinBroke, SpinMissing

from ..extras import MissingExtra
from ..telemetry.export import ExportRefused


@frozen
class Entry:
    """One code.

    Attributes:
        code: the word that programs route on.
        meaning: what happened.
        advice: what to do.
        raised_as: the name of the class, of codes that are raised.
    """

    code: str
    meaning: str
    advice: str
    raised_as: str = ""


RAISED = {
    "TREADLE": "It is the base of the others: catch it to catch all of them.",
    "MISUSE": "Read the text: it names the argument and what it may be. It is a mistake of the calling program.",
    "INVALID_MESSAGE": "Send text, or a list of content blocks that JSON can carry, within the bounds that the text names.",
    "INVALID_DATA": "Look at `path`: it names the place of a value that JSON cannot carry, such as NaN, a set or a lone surrogate.",
    "DUPLICATE_MESSAGE": "It was delivered before: do nothing if you are repeating yourself, else choose a new id.",
    "INVALID_TRIGGER": "Report it as a bug with the session's log; `treadle check` tells whether the log itself is sound.",
    "AGENT_BUSY": "Await `agent.when_idle()` and call again; to end what runs, `cancel` first.",
    "AGENT_DISPOSED": "Create the agent anew, or resume its session from the store.",
    "MESSAGE_REJECTED": "See `reason`: a turn before this one failed or was cancelled. Send the message again.",
    "PARENT_CANCELLED": "Let the tool end: its turn was stopped, so no child may begin.",
    "SCOPE_CLOSED": "Register on a scope that lives: the host's, or that of an agent which is not disposed.",
    "DUPLICATE_SESSION": "Use the agent that is live (`host.agents.get(id)`), or choose another session id.",
    "NO_FACTORY": "Use `Host()` as it is, or set a factory before agents are created.",
    "NO_STORE": 'Give the host a store: `Host(store=open_store("jsonl", path))`.',
    "SESSION_NOT_FOUND": "Check the id and the store's path; `treadle sessions list` shows what there is.",
    "BRIDGE_CLOSED": "Call within `async with Bridge(...)`; after it has been left nothing is answered any more.",
    "STREAM_OVERRUN": "Read on from the log, or read faster: give the stream a larger buffer.",
    "COMPACTION_FAILED": "Nothing was changed. See the cause: mostly the model that writes summaries failed.",
    "CONFIG_ERROR": "Mend the file at the place that the text names; every mistake of the file is in it.",
    "DELEGATION_LIMIT": "Raise `max_delegation_depth` or `max_live_children` of the host, or let fewer children live at once.",
    "SESSION_CORRUPT": "Keep a copy, then `treadle sessions verify` says what is wrong and `treadle sessions repair` mends what a crash left.",
    "SESSION_FORMAT_UNSUPPORTED": "Read the session with the version of treadle that wrote it, or upgrade this one.",
    "SESSION_LOCKED": "End the process that the text names, or read without writing (`treadle show --follow`).",
    "LEASE_LOST": "Stop: another replica goes on with the session. Nothing was lost that had been acknowledged.",
    "STORE_FAILURE": "See that there is room and that the place can be written, then go on: records are kept in memory and written again.",
    "MAINTENANCE_CANCELLED": "Run the task again when the agent is idle, if it is still wanted.",
    "PRESET_ERROR": "Mend the preset file as the text says, or name a preset that is there.",
    "PROMPT_FAILED": "Give the variable that is missing, or mend the provider of the section that the text names.",
    "HOOK_ERROR": "Return from the listener what its hook point takes: [hook points](../hooks.md) lists it.",
    "INVARIANT_VIOLATED": "Report it as a bug with the log: the driver broke the rule that `rule` names.",
    "BUDGET": "Give the account that the text names more, or begin a new turn or session.",
    "TOOL_FAILED": "See the result's text: it holds what the tool raised. `ToolError(message, code)` gives it a code of your own.",
    "MODEL_FAILURE": "Route on `failure.code`, see [failures](#failures-of-models-and-turns).",
    "EXPORT_REFUSED": "The collector did not take the spans: check `--endpoint`, and that it takes OTLP/JSON over HTTP.",
    "MISSING_EXTRA": "Install the extra that the text names, as in `pip install 'treadle[web]'`.",
    "SPIN_MISSING": "Install spin and a C compiler (`apt install spin gcc libc6-dev`).",
    "SPIN_BROKE": "See spin's own words in the text; the exported model is a file that spin reads by itself, too.",
    "TOOL_NOT_TEXT": "The file is not text: read it with a command, or not at all.",
    "TOOL_EDIT_MISFIT": "The text to be replaced is not there, or more than once: the model reads the file again.",
    "TOOL_OUTSIDE_FOLDER": "The path leaves the folder that the tools were given: give another folder, or another path.",
    "TOOL_NO_SUCH_FILE": "The file is not there: the model lists the folder.",
    "TOOL_UNAVAILABLE": "The server of tools cannot be started or reached; nothing was done. Its stderr is in the log `treadle.mcp.NAME`.",
    "TOOL_REFUSED": "The server of tools refused the call; its words are in the result.",
}
"""What to do, by the code of each class; what each means stands in its docstring."""

FAILURES = {
    "RATE_LIMIT": (
        "The provider asks to come back later.",
        "It is retried by itself, after what the provider asks for. If it stays: fewer agents at once, or a larger quota.",
    ),
    "SERVER": ("The provider failed (5xx).", "It is retried by itself. If it stays: see the provider's status page."),
    "TIMEOUT": (
        "Nothing came for as long as the adapter waits.",
        "It is retried by itself. If it stays: raise the adapter's timeouts, or check the server.",
    ),
    "TRANSPORT": (
        "The connection could not be made, or broke.",
        "It is retried by itself. If it stays: is the server running, is the base URL right, is a proxy in between?",
    ),
    "EMPTY_RESPONSE": (
        "The answer held nothing.",
        "It is retried by itself. If it stays: another model, or a shorter history.",
    ),
    "MALFORMED_RESPONSE": (
        "The answer does not follow the provider's protocol, or goes beyond a bound.",
        "Read the text: it says what was wrong, and which agent option raises the bound. Is the server the kind that the adapter is for?",
    ),
    "STREAM_CLOSED": (
        "The answer broke off before its end, or took longer than it may.",
        "What came is kept. It is retried by itself unless it took too long: then raise `max_answer_seconds`.",
    ),
    "CONTEXT_WINDOW_EXCEEDED": (
        "The history is longer than the model takes.",
        "Install a [compaction](../long-sessions.md#compaction), or begin a new session.",
    ),
    "QUOTA": ("The account has run out.", "See the provider's billing page. It is not retried."),
    "INVALID_CREDENTIAL": ("The key was refused.", "Check the variable that holds the key. It is not retried."),
    "MISSING_CREDENTIAL": ("No key was found.", "Set the variable that the text names."),
    "INVALID_REQUEST": (
        "The provider refuses the request as it is.",
        "Read the text: mostly the model's name, or an option that this model does not take.",
    ),
    "CONTENT_FILTER": ("The provider would not answer this.", "Ask otherwise. It is not retried."),
    "ABORTED": (
        "It was stopped while it was running.",
        "Nothing: a cancel did this. A tool may have taken effect in part.",
    ),
    "NO_ADAPTER": (
        "No model is registered under the provider's name.",
        "Register one (`host.models.register(name, adapter)`), or name one that is there.",
    ),
    "UNKNOWN": ("Something failed that has no code.", "Read the text; it holds the chain of causes."),
    "STEP_LIMIT": (
        "The turn had as many steps as it may.",
        "Send another message to go on; `max_steps_per_turn` raises the limit.",
    ),
}
"""Meaning and advice of failures: of a request to a model, and of a turn as its end tells it."""

RESULTS = {
    "ABORTED": ("The tool was stopped while it ran.", "It may have taken effect in part; the model is told so."),
    "ABORTED_BEFORE_DISPATCH": ("The call was not started: the turn was stopped first.", "Nothing was done."),
    "TOOL_NOT_STARTED": ("The call was never started: the process died, or the turn broke off.", "Nothing was done."),
    "TOOL_OUTCOME_UNKNOWN": (
        "The call was started, and its result is not known.",
        "Check whether it took effect before it is repeated. Tools that can be asked so are worth writing.",
    ),
    "TOOL_TIMEOUT": (
        "The tool took longer than it may.",
        "It may have taken effect. Raise the tool's `timeout`, or have it do less at once.",
    ),
    "UNKNOWN_TOOL": (
        "The model asked for a tool that is not offered.",
        "Nothing: the model is told which there are. If it stays, see the system prompt.",
    ),
    "INVALID_ARGUMENTS": (
        "The arguments are no JSON, or do not fit the tool's schema.",
        "Nothing: the model is told where. If it stays, describe the parameters better.",
    ),
    "INVALID_OUTPUT": (
        "The tool ran, but what it returned is not JSON, or does not fit its schema.",
        "Mend the tool: it may return text, numbers, lists, dictionaries, and classes that become these.",
    ),
    "HOOK_FAILED": (
        "A hook that had a say in this call raised.",
        "Mend the hook: the error was told at `agent/error`.",
    ),
    "DENIED": ("A hook or a guard forbade the call before it ran.", "Nothing: its reason is the result's text."),
    "STOPPED": ("A sub-agent was stopped before it had finished.", "Part of its work may be done: see its session."),
    "NO_ANSWER": ("A sub-agent came to rest without having said anything.", "Ask it for an answer in its prompt."),
    "BLOCKED": (
        "A hook withheld the result, or would not let a sub-agent do the job.",
        "Nothing: the reason is the result's text.",
    ),
    "NOT_APPROVED": (
        "A person said no, or nobody was there to ask.",
        "Give the host an `approver`, or `treadle run --yes`.",
    ),
    "TOOL_ANSWER_INVALID": (
        "What a server of tools answered is no result, or does not fit its own schema.",
        "Mend the server, or take it away.",
    ),
    "TOOL_ANSWER_TOO_LONG": (
        "A server of tools answered more than `message_bytes`.",
        "Raise the limit, or ask for less.",
    ),
}
"""Meaning and advice of results of tools, beside those of `RAISED` that begin with ``TOOL_``."""

PROBLEMS = {
    "ANSWERED": ("The approval was answered before.", "Nothing: the first answer stands."),
    "DRAINING": ("The server is going down.", "Send it again in a moment, to whoever answers then."),
    "GONE": ("The client went away while it was sending.", "Nothing."),
    "INBOX_CHANGED": ("The messages that wait are not those you named.", "Read the inbox again."),
    "INTERNAL": ("The server failed.", "Its log says more."),
    "INVALID_BODY": ("The body does not fit.", "`detail` names the place; `/api/openapi.json` says what is taken."),
    "MESSAGE_NOT_FOUND": ("No message of that id was delivered to this session.", "Check the id."),
    "METHOD_NOT_ALLOWED": ("The path is not for that method.", "See `/api/openapi.json`."),
    "NOT_FOUND": ("There is nothing under this path.", "See `/api/openapi.json`."),
    "NOT_JSON": ("The body is no JSON, or is not said to be.", "Send JSON with `content-type: application/json`."),
    "NOT_OURS": ("The session's agent was not made over the web.", "End it where it was made."),
    "NOT_PENDING": ("The message or approval does not wait any more.", "Read the inbox, or the approvals, again."),
    "NOT_RUNNING": ("The host is not running.", "Enter the host, or the bridge, before requests come."),
    "STEER_UNAVAILABLE": ("No turn is running that would take it.", "Send it as a follow-up."),
    "TOO_LARGE": ("The body is larger than may be.", "Send less, or raise `Limits.body`."),
    "TOO_MANY_LIVE": ("As many agents are at work as may be.", "Try again later, or raise the limit."),
    "TOO_MANY_REQUESTS": ("As many requests are under way as may be.", "Try again in a moment."),
    "TOO_MANY_SESSIONS": ("The owner has as many sessions as one may have.", "Delete some."),
    "TOO_MANY_STREAMS": (
        "The owner reads as many streams as one may.",
        "Close some, or read many sessions over one socket.",
    ),
    "TOO_MANY_WATCHED": ("The socket watches as many sessions as it may.", "Stop watching some, or open another."),
    "TOO_SLOW": ("The body was not sent in time.", "Send it faster, or raise the limit."),
    "TURN_FAILED": ("The turn that should answer failed.", "`detail` says how it ended."),
    "UNAUTHORIZED": ("No token, or not one that is known.", "Send `Authorization: Bearer TOKEN`."),
    "UNKNOWN_TASK": ("No maintenance task has this name.", "`detail` lists those there are."),
    "WRONG_HOST": ("The request is for a name that this server does not go by.", "Name it in `hosts`."),
    "WRONG_ORIGIN": ("A page of another origin asked.", "Name the origin in `hosts`, or use a token."),
}
"""Meaning and advice of what the web answers, beside the codes that are raised."""


def entries() -> dict[str, list[Entry]]:
    """All codes by the title of their section, in the order of the page."""
    raised = [Entry(kind.code, _meaning(kind), RAISED[kind.code], kind.__name__) for kind in _kinds()]
    return {
        "Errors that are raised": raised,
        "Failures of models and turns": _rows(FAILURES),
        "Results of tools": _rows(RESULTS),
        "Answers over HTTP": _rows(PROBLEMS),
    }


def explained(code: str) -> list[Entry]:
    """All that one code may mean: some stand for an error and for a result. Empty for an unknown one."""
    return [entry for rows in entries().values() for entry in rows if entry.code == code]


def page() -> str:
    """The sections, as Markdown below a page's title."""
    lines: list[str] = []
    for title, rows in entries().items():
        lines += [f"## {title}", ""]
        for entry in rows:
            raised = f"Raised as `{entry.raised_as}`. " if entry.raised_as else ""
            lines += [f"### `{entry.code}`", "", f"{entry.meaning} {raised}", "", f"**What to do.** {entry.advice}", ""]
    return "\n".join(lines)


def _meaning(kind: type) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].replace("``", "`").split())


def _rows(table: dict[str, tuple[str, str]]) -> list[Entry]:
    return [Entry(code, *words) for code, words in table.items()]


def _kinds() -> list[type[TreadleError]]:
    """The classes of the core in the order of their names, and those of the other packages that a program may meet."""
    core = [getattr(errors, name) for name in errors.__all__]
    return [
        *core,
        ModelFailure,
        ExportRefused,
        MissingExtra,
        EditMisfit,
        NoSuchFile,
        NotText,
        OutsideFolder,
        ServerRefused,
        Unavailable,
        SpinBroke,
        SpinMissing,
    ]
