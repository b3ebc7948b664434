"""The client that the official conformance suite runs: an agent that lists the server's tools and calls each once.

``python conformance_client.py URL``; the suite names the scenario in MCP_CONFORMANCE_SCENARIO.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import trio
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from treadle import AgentOptions, Answer, Call, Host, ModelRequest, ScriptedModel, ToolResultMessage
from treadle_adapters.mcp import MCP_ELICITATION, Accept, HTTPServer, Limits, MCPTools

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
HERE = "http://localhost:3030/callback"
DOCUMENT = "https://conformance-test.local/client-metadata.json"


class Storage:
    """Keeps tokens while the program runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def oauth(url: str) -> Any:
    """What authenticates requests in the scenarios about that."""
    storage = Storage()
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, storage, CONTEXT["client_id"], CONTEXT["client_secret"])
    if SCENARIO == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=CONTEXT["client_id"],
            subject=CONTEXT["client_id"],
            signing_algorithm=CONTEXT["signing_algorithm"],
            signing_key=CONTEXT["private_key_pem"],
        )
        return PrivateKeyJWTOAuthProvider(url, storage, CONTEXT["client_id"], signed.create_assertion_provider())
    if "client_id" in CONTEXT:
        storage.client = OAuthClientInformationFull(
            client_id=CONTEXT["client_id"],
            client_secret=CONTEXT.get("client_secret"),
            redirect_uris=[AnyUrl(HERE)],
            token_endpoint_auth_method="client_secret_basic",
        )
    answers: list[AuthorizationCodeResult] = []

    async def redirect(where: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(where)
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        some = {name: query[name][0] for name in ("code", "state", "iss") if name in query}
        answers.append(AuthorizationCodeResult(**some))

    async def callback() -> AuthorizationCodeResult:
        return answers.pop()

    wanted = OAuthClientMetadata(
        client_name="treadle",
        redirect_uris=[AnyUrl(HERE)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(url, wanted, storage, redirect, callback, client_metadata_url=DOCUMENT)


def plausible(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the types that a tool wants."""
    values: dict[str, Callable[[], Any]] = {"number": lambda: 2, "integer": lambda: 3, "string": lambda: "text"}
    fields: dict[str, Any] = schema.get("properties", {})
    return {name: values.get(field.get("type"), lambda: None)() for name, field in fields.items()}


def calls_each(request: ModelRequest) -> Answer | str:
    """Calls each tool once, and then is done."""
    if any(isinstance(message, ToolResultMessage) for message in request.messages):
        return "done"
    calls = [Call(tool.name, plausible(tool.parameters)) for tool in request.tools]
    return Answer(calls=calls) if calls else "there is nothing to call"


async def main(url: str) -> None:
    server = HTTPServer(
        url,
        asks="never",
        limits=Limits(start_seconds=20, call_seconds=20),
        auth=(lambda: oauth(url)) if SCENARIO.startswith("auth/") else None,
    )
    async with Host() as host:
        host.models.register("m", ScriptedModel(default=calls_each))
        MCPTools({"s": server}).attach(host)
        host.on(MCP_ELICITATION, lambda *_: Accept())
        handle = await host.agents.create(agent_options=AgentOptions("m", "m"))
        handle.agent.followup("go")
        await handle.agent.when_idle()
        for message in handle.agent.session.history():
            print(message.role, message.content)


trio.run(main, sys.argv[-1])
