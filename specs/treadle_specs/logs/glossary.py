"""The words of the format document that no class has to say itself."""

from __future__ import annotations

INTRODUCTION = """
# The format of the session log

<!-- made by: python -m treadle_specs.reports.log_format --write -->

A session is one header and a list of events. In a `.jsonl` file the header is the first line and event 0 the second;
each line is one JSON object in strict UTF-8 that ends with a line feed (U+000A) and nothing else: other separators may
stand unescaped in text. A `.jsonl.zst` file is the same text as a row of Zstandard frames, each of whole lines. In an SQLite
database header and events are rows, with the same records as text.

Keys are camelCase. Keys whose value is the one under *if left out* are not written where a class says so, and need not be
there when read. Keys that are unknown are passed over. Times are milliseconds since 1970-01-01 UTC, unless a field says
otherwise; spans of time are seconds. Numbers of turns and steps begin at 1, sequence numbers at 0.

A reader that meets an unknown event type keeps it as it is if it is marked `ignorable`, and refuses the session
otherwise.
"""

VERSIONING = """
## Versions

This is format {current}. The first format is {first}.

- The version grows by one when a reader of the last one would misread a log: a core type or a field is removed or renamed,
  or comes to mean something else.
- A new optional field, a new member of a structure with a `type` or `kind`, or a new type that is marked `ignorable` needs
  no new version. A new core type that is not ignorable is refused by older readers by its name, and needs none either;
  *since* says in which format it came.
- A reader refuses a newer format as unsupported, never as damage.
- Whoever raises the version adds the step that leads there from the version before, and a log of the old version to the
  tests, which is never made again. Steps keep the number and the order of events. Reading an older log changes
  nothing that is stored; opening it for writing rewrites it whole.

The steps:

{steps}
"""

GLOSSARY: dict[str, str] = {
    "type": "the tag, from the table below",
    "turn": "number of the turn, from 1 (L4)",
    "step": "number of the step within its turn, from 1 (L4)",
    "TurnEnd.reason": "why it ended (T7)",
    "UserMessageAdded.message": "the message",
    "SystemMessageAdded.message": "the prompt; empty content clears it (Q3)",
    "AssistantAttempt.attempt_id": "the provider call",
    "AssistantAttempt.finish": "why the stream ended; absent when it was interrupted",
    "AssistantAttempt.usage": "the tokens the provider reported; absent when it reported none (C5)",
    "AssistantAttempt.interrupted": "whether a cancel cut it off",
    "AssistantAttempt.stream": "the exact timed stream (Q9)",
    "ToolCallStarted.call_id": "the call, as the answer names it",
    "name": "the tool's name",
    "arguments": "the raw text of the arguments, as the model wrote it (Q5)",
    "RequestHeader.config": "what the calls are made with",
    "RequestHeader.tools": "what the model may call",
    "RequestHeader.reason": "why it is written again (Q2)",
    "RequestContext.provider": "the route",
    "RequestContext.model": "the model's id",
    "RequestContext.context_window": "tokens; absent when unknown",
    "RequestContext.system_prompt_mode": "how a changed system prompt enters (Q3)",
    "EndSeed.inherited": "how many events lie before that were inherited",
    "EndSeed.parent": "the session they come from",
    "InboxSpliced.target": "which pending list",
    "InboxSpliced.start": "where in the list, from 0",
    "InboxSpliced.removed_count": "how many entries leave the list there",
    "InboxSpliced.inserted": "the messages that enter in their place",
    "InboxSpliced.outcome": "that the removed messages left the inbox for good; absent for a claim (I3)",
    "attempt": "number of the failed attempt within its step, from 1",
    "delay": "seconds until the retry",
    "failure": "what went wrong",
    "PresetSelected.preset": "the preset's id",
    "Replace.first": "seq of the first event that is replaced",
    "Replace.last": "seq of the last event that is replaced",
    "ToolSchema.description": "what the model is told it does",
    "ToolSchema.parameters": "JSON schema of the arguments",
    "id": "its only identity (I1)",
    "pinned": "whether compaction keeps it as it is; left out where nobody said so (Z2)",
    "content": "the content blocks, in order",
    "source": "who supplied it",
    "role": "always the same",
    "adapter": "the adapter that made it",
    "replay": "private data of that adapter, handed back to it alone (Q10)",
    "text": "the text",
    "call_id": "the call",
    "is_error": "whether the call failed",
    "code": "the kind of failure",
    "HookSource.name": "the hook's name",
    "agent_id": "the agent's id",
    "Blocked.detail": "the prompt hook's reason (H7)",
    "Aborted.reason": "the first cause of the cancellation (C2)",
    "ByHook.reason": "what the hook says about it",
    "Finish.kind": "`stop`, `tool-calls`, `max-tokens`, `content-filter`, `refusal`, `error`, `aborted`, or a provider's word",
    "Finish.failure": "more about `error` and `aborted`",
    "Finish.detail": "the provider's own words",
    "input_tokens": "tokens read",
    "output_tokens": "tokens written",
    "cache_read_tokens": "tokens read from the provider's cache",
    "cache_write_tokens": "tokens written to the provider's cache",
    "reasoning_tokens": "tokens of reasoning, where they are told apart",
    "segments": "runs of chunks, in order of arrival",
    "BlockStart.kind": "what kind of block begins",
    "BlockStart.name": "the tool's name, for a call",
    "BlockStart.call_id": "the call's id, for a call",
    "index": "which block it belongs to",
    "usage": "the tokens so far",
    "finish": "why the stream ended",
}
"""What fields mean whose class does not say so; ``Class.field`` goes before ``field``."""
