"""Names of the GenAI semantic conventions, and those of our own beside them.

The conventions are those of ``open-telemetry/semantic-conventions-genai`` v0.1.0, their first release of their own (the
main repository's v1.41.0 was the last to hold them). What they do not name begins with ``treadle.``.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
STREAM = "gen_ai.request.stream"
MAX_TOKENS = "gen_ai.request.max_tokens"
REASONING_LEVEL = "gen_ai.request.reasoning.level"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_DESCRIPTION = "gen_ai.tool.description"
ERROR = "error.type"

SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

TURN = "treadle.turn"
STEP = "treadle.step"
ATTEMPT = "treadle.attempt"
TURN_END = "treadle.turn.end"
CAUSE = "treadle.cancel.cause"
PARENT_SESSION = "treadle.parent.session"
LINK = "treadle.link"
DELAY = "treadle.retry.delay"
COST = "treadle.cost"

FINISHES = {"tool-calls": "tool_call", "max-tokens": "length", "content-filter": "content_filter"}
"""Our words for why an answer ended, where the conventions have another."""

INSTRUMENTATION = "treadle"
"""The instrumentation scope under which spans, metrics and logs are reported."""
