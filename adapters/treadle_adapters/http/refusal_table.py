"""How servers refuse: one table of what they write, what it means, and where it was seen (Q7, Q14).

The first row that fits decides. A row fits by one of its words, which mean the same whatever the status is, or by its
sentence, which counts only beside the statuses that leave the question open. Sentences are read here and nowhere else.
"""

from __future__ import annotations

import re

from attrs import field, frozen

from treadle.models import Code

from .told import Told

CLIENT = (None, 200, 400, 403, 404, 413, 422)
"""Statuses that say no more than that the request was refused; ``None`` inside a stream."""

LIMITS = (None, 200, 400, 402, 403, 413, 429)
"""Statuses beside which a sentence may tell a limit of an account."""

BUSY = (None, 200, 400, 403, 413, 429, 498)
"""Statuses beside which a sentence may tell that a server is busy."""


def _pattern(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text, re.IGNORECASE | re.DOTALL)


@frozen
class Row:
    """One way to refuse.

    Attributes:
        name: what ``treadle models --explain`` calls it.
        code: what it is taken for.
        seen: the servers that it was seen at.
        words: values of ``code``, ``type`` and their like, in lower case.
        says: what a sentence that means it says.
        unless: what such a sentence does not say.
        statuses: beside which a sentence counts.
        waits: whether a wait told beside it is to be believed.
        patient: it ends by itself, but later than anybody waits; a short wait told beside it makes it a rate limit.
    """

    name: str
    code: Code
    seen: str
    words: frozenset[str] = field(default=frozenset[str](), converter=frozenset[str])
    says: re.Pattern[str] | None = field(default=None, converter=_pattern)
    unless: re.Pattern[str] | None = field(default=None, converter=_pattern)
    statuses: tuple[int | None, ...] = CLIENT
    waits: bool = True
    patient: bool = False

    def fits(self, told: Told, status: int | None) -> bool:
        """Whether this row says what ``told`` means."""
        if self.words and not self.words.isdisjoint(told.words):
            return True
        if status == 500 and self.code is TOO_LONG and not SERVERS_FAULT.fits(told, None):
            status = None  # some servers know no other status
        if self.says is None or status not in self.statuses or self.says.search(told.text) is None:
            return False
        return self.unless is None or self.unless.search(told.text) is None


TOO_LONG = Code.CONTEXT_WINDOW_EXCEEDED

# fmt: off
TABLE: tuple[Row, ...] = (
    # --- one request beyond a limit per minute: a wait does not help, a shorter request does -------------------------
    Row(
        "larger than its limit",
        TOO_LONG,
        "Groq (413), OpenAI and Azure (429): a request larger than the tokens per minute",
        says=r"request too large for|input or output tokens must be reduced|reduce your message size",
        statuses=(*CLIENT, 429),
    ),
    # --- a history that is too long ----------------------------------------------------------------------------------
    Row(
        "context words",
        TOO_LONG,
        "OpenAI, Azure, Cerebras, Anthropic, llama.cpp, LiteLLM, GitHub Models, z.ai (1261), Xunfei (10907)",
        words={
            "context_length_exceeded", "context_window_exceeded", "exceed_context_size_error", "prompt_too_long",
            "model_context_window_exceeded", "request_too_large", "string_above_max_length", "tokens_limit_reached",
            "contextwindowexceedederror", "max_context_length_exceeded", "context_length_error", "input_too_long",
            "context_overflow", "1261", "10907",
        },
    ),
    # --- never, until somebody pays or a period ends -----------------------------------------------------------------
    Row(
        "Gemini's quota of a day",
        Code.QUOTA,
        "Gemini: QuotaFailure with a quotaId PerDay; its retryDelay is that of the minute",
        says=r"(?:requests|tokens)\w*PerDay",
        statuses=LIMITS,
        waits=False,
    ),
    Row(
        "a quota of nothing",
        Code.QUOTA,
        "Gemini: a model that the free tier does not have",
        says=r"quota exceeded for metric[^|]{0,300}limit: 0\b",
        statuses=LIMITS,
        waits=False,
    ),
    Row(
        "Model Studio's free quota",
        Code.QUOTA,
        "Alibaba Model Studio",
        words={"allocationquota.freetieronly", "throttling.allocationquota.freetieronly", "arrearage"},
        says=r"free (?:tier|quota|allocated quota)[^|]{0,80}(?:exhausted|exceeded|used up)",
        statuses=LIMITS,
    ),
    Row(
        "Model Studio's tokens per minute",
        Code.RATE_LIMIT,
        "Alibaba Model Studio, under code insufficient_quota",
        words={"throttling.ratequota", "throttling.allocationquota", "throttling", "limit_requests"},
        says=r"allocated quota exceeded|exceeded your current requests list|request rate increased too quickly",
        statuses=LIMITS,
    ),
    Row(
        "billing words",
        Code.QUOTA,
        "OpenAI, Anthropic, Moonshot, ZenMux, MiniMax (1008, 2056), z.ai (1113, 1309), Cloudflare (3036)",
        words={
            "billing_error", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance",
            "insufficient_quota", "quota_exceeded", "exceeded_current_quota_error", "insufficient_credit",
            "insufficient_credits", "reject_no_credit", "quote_exceeded", "usage_limit_reached", "payment_required",
            "enforced_spend_limit_reached", "usage_limit_exceeded", "servicequotaexceededexception",
            "out_of_credits", "base_resp:1008", "base_resp:2056", "1113", "1309", "3036",
        },
    ),
    Row(
        "billing",
        Code.QUOTA,
        "Anthropic (400), xAI (403 and 429), DeepSeek, OpenRouter, Hugging Face, Together, Mistral, Kimi, z.ai",
        says=r"credit balance|available credits|spend(?:ing)? limit|(?:insufficient|not enough|no|out of|more) "
        r"(?:account )?(?:balance|credit|fund)|balance (?:is |has )?(?:too low|insufficient|not enough|exhausted)"
        r"|API usage limits|included credits|arrears|overdue|please (?:recharge|top up)|top up your|hard limit"
        r"|purchase (?:more )?credits|upgrade your plan to continue|余额不足|欠费|充值|额度不足",
        statuses=LIMITS,
    ),
    Row(
        "a limit of a day or longer",
        Code.QUOTA,
        "OpenRouter, Groq (TPD), Cerebras, GitHub Models, Bedrock, Cohere's trial keys, Kimi, z.ai (1304, 1308, 1310)",
        words={"1304", "1308", "1310"},
        says=r"(?:(?:limit|quota|exceed|allocation|too many|usage|cap\b).{0,200}"
        r"(?:per[-_ ]?(?:day|week|month)|daily|weekly|monthly|\b[TR]PD\b|per 86400s|ByDay\b|billing cycle|/ ?(?:day|month)\b))"
        r"|(?:(?:per[-_ ]?(?:day|week|month)|daily|weekly|monthly|\d+ API calls ?/ ?month).{0,100}"
        r"(?:limit|quota|exceed|allocation|used up|reached|cap\b))|usage limit (?:reached|has been)|your usage limit"
        r"|(?:每日|今日|每周|每月|使用上限).{0,40}(?:限额|上限|重置)",
        statuses=(None, 200, 402, 403, 429),
        patient=True,
    ),
    # --- content, credentials ----------------------------------------------------------------------------------------
    Row(
        "content words",
        Code.CONTENT_FILTER,
        "OpenAI, Azure, Model Studio, MiniMax (1026, 1027), z.ai (1301)",
        words={
            "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed",
            "image_content_policy_violation", "datainspectionfailed", "base_resp:1026", "base_resp:1027", "1301",
            "safety_check_failed", "content_moderation",
        },
    ),
    Row(
        "content",
        Code.CONTENT_FILTER,
        "OpenRouter (403), Azure, Model Studio",
        says=r"(?:was|been|is) flagged|content management policy|inappropriate content|input requires moderation",
    ),
    Row(
        "credential words",
        Code.INVALID_CREDENTIAL,
        "OpenAI, Anthropic, Model Studio, Bedrock, MiniMax (1004, 2049)",
        words={
            "account_deactivated", "authentication_error", "invalid_api_key", "invalidapikey", "permission_denied",
            "permission_error", "accessdeniedexception", "unrecognizedclientexception",
            "invalid_authentication_error", "base_resp:1004", "base_resp:2049", "expiredtokenexception",
            "unauthenticated",
        },
    ),
    # --- come back later ---------------------------------------------------------------------------------------------
    Row(
        "busy words",
        Code.SERVER,
        "OpenAI, Anthropic (529), Moonshot, llama.cpp, Bedrock, Gemini, z.ai (1312), MiniMax (1000, 1013, 1033)",
        words={
            "engine_overloaded", "engine_overloaded_error", "overloaded", "overloaded_error", "service_unavailable",
            "unavailable_error", "unavailable", "serviceunavailableexception", "modelnotreadyexception",
            "modelerrorexception", "capacity_exceeded", "server_overloaded", "model_overloaded", "1312",
            "base_resp:1000", "base_resp:1013", "base_resp:1033", "service_tier_capacity_exceeded",
            "no_provider_available",
        },
    ),
    Row(
        "busy",
        Code.SERVER,
        "Moonshot (429), Groq (498), Mistral (429), Together (503), Codex, Ollama",
        says=r"overloaded|(?:at|no available|exceeded|insufficient) capacity|capacity exceeded|server is (?:busy|loading)"
        r"|temporarily unavailable|high demand|is currently loading|server busy|访问量过大",
        statuses=BUSY,
    ),
    Row(
        "rate words",
        Code.RATE_LIMIT,
        "OpenAI, Anthropic, Gemini, Bedrock, GitHub Models, Moonshot, z.ai (1302, 1303, 1305, 1313), MiniMax (1002, 1039)",
        words={
            "rate_limit_error", "rate_limit_exceeded", "rate_limit_reached_error", "rate_limit", "too_many_requests",
            "ratelimitreached", "resource_exhausted", "throttlingexception", "slow_down", "1302", "1303", "1305",
            "1313", "base_resp:1002", "base_resp:1039", "base_resp:1041", "base_resp:2045", "rate_limited",
            "ratelimiterror", "toomanyrequestsexception", "concurrency_limit_exceeded",
        },
    ),
    Row(
        "a quota in words alone",
        Code.QUOTA,
        "OpenAI and its like, where the code is missing",
        says=r"exceeded your (?:current |monthly )?quota|quota (?:has been )?(?:exhausted|used up)|insufficient quota",
        statuses=LIMITS,
    ),
    Row(
        "rate",
        Code.RATE_LIMIT,
        "Bedrock, Mistral, NVIDIA, gateways: inside streams, or beside 400",
        says=r"rate[- _]?limit|too many requests|throttl(?:ed|ing)|please wait before trying again|per minute"
        r"|请求频率|并发数过高|频率过高",
        statuses=(None, 200, 400, 403),
    ),
    Row(
        "timeout words",
        Code.TIMEOUT,
        "Anthropic, OpenAI, Bedrock, Gemini, MiniMax (1001)",
        words={
            "timeout", "timeout_error", "request_timeout", "modeltimeoutexception", "deadline_exceeded",
            "base_resp:1001",
        },
    ),
    # --- a history that is too long, in words alone ------------------------------------------------------------------
    Row(
        "context",
        TOO_LONG,
        "vLLM, SGLang, Anthropic, Bedrock, xAI, LM Studio, Ollama, DeepSeek, z.ai, TGI, Cerebras, Azure, OpenAI, Gemini, "
        "Mistral, Together, Fireworks, Cohere, Copilot, MiniMax, Moonshot, Model Studio, OpenRouter, llama-cpp-python",
        says=r"max(?:imum|\.)?[ _](?:allowed )?(?:context|prompt|input|sequence|model)[ _](?:length|len|size|window)"
        r"|(?:prompt|input|context|conversation|messages?|history|inputs)\b[^|.]{0,40} too (?:long|large|big|many tokens)"
        r"|too many (?:input )?tokens|(?:token|context|length) limit (?:is |was |has been )?exceeded|exceeded .{0,20}token limit"
        r"|(?:exceed\w*|beyond|overflow\w*|longer than|greater than|larger than|more than|too small for|out of)"
        r"[^|]{0,80}(?:context|max(?:imum)? (?:allowed )?(?:tokens|length|input|number of (?:input )?tokens)|token limit)"
        r"|context[ _-]?(?:length|window|size|limit)?[^|.]{0,60}(?:exceed|overflow|is only \d|too small|is full|shift is disabled)"
        r"|(?:prompt|input)(?: token)?s?(?: count| length)?[^|.]{0,60}(?:exceeds?|over|above|>) (?:the )?"
        r"(?:model'?s )?(?:configured |allowed )?(?:max|limit|length)"
        r"|(?:reduce|shorten|decrease) (?:the )?(?:length of )?(?:the |your )?(?:messages|prompt|input|context|conversation)"
        r"|shorter (?:prompt|input)|configured context size|current length is \d+ while limit|max_new_tokens`? must be"
        r"|must have less than \d+ tokens|(?:less|fewer) than the context|context (?:window|length) is \d|max_(?:seq|model)_len"
        r"|max message tokens|(?:input|prompt) length should be|context length of (?:only )?\d+"
        r"|(?:输入|上下文|prompt).{0,20}(?:超长|过长|超过|超出)",
        unless=r"rate[- _]?limit|too many requests|per minute|throttl|please wait|\bcharacters\b|\barguments?\b"
        r"|number of (?:output|completion) tokens|max_tokens:? (?:must|cannot|should|\d+ >)|context window too small",
    ),
    Row("a body that is too large", TOO_LONG, "nginx and other proxies", says=r"(?:entity|payload|body) too large"),
)
"""The first row that fits decides."""

SERVERS_FAULT = Row(
    "a server's fault",
    Code.SERVER,
    "all",
    words={
        "api_error", "internal_error", "internal_server_error", "internalservererror", "server_error",
        "internal", "internalserverexception",
    },
)

GENERAL: tuple[Row, ...] = (
    SERVERS_FAULT,
    Row(
        "a request's fault",
        Code.INVALID_REQUEST,
        "all",
        words={
            "badrequesterror", "invalid_prompt", "invalid_request", "invalid_request_error", "model_not_found",
            "not_found_error", "invalid_argument", "validationexception", "base_resp:2013",
        },
    ),
    Row("a limit", Code.RATE_LIMIT, "OpenAI, Groq: under type", words={"requests", "tokens"}),
)  # fmt: skip
# fmt: on
"""Words so general that the status, where there is one, says more."""
