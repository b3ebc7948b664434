"""The resources: what is made, told, changed and refused, under both servers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.adapters.web.served import SERVERS, event_of, served
from treadle import Answer, Call, Host, MemoryStore, ScriptedModel, SessionHeader, tool
from treadle.extensions.compaction import Compaction, SummaryJob
from treadle.hooks import TOOLS_PRE_EXECUTE, AskCall
from treadle_adapters.web import Limits
from treadle_diagrams import LivePictures

pytestmark = pytest.mark.parametrize("kind", SERVERS)


def scripted(*script: Any, store: Any = None, **options: Any) -> Host:
    host = Host(store=store, checks=True)
    host.models.register("scripted", ScriptedModel(script, **options))
    return host


class Gate:
    """A tool that waits until it is opened; opened from any thread."""

    def __init__(self) -> None:
        self._open = False
        self.entered = False

    async def hold(self) -> str:
        """Wait."""
        self.entered = True
        while not self._open:  # noqa: ASYNC110  # it is opened from another thread
            await trio.sleep(0.002)
        return "went on"

    def open(self) -> None:
        self._open = True


async def test_a_session_is_made_spoken_to_listed_read_forked_and_deleted(kind: str) -> None:
    async with served(scripted("Hello there.", store=MemoryStore()), kind) as server, server.client() as web:
        made = (await web.post("/api/sessions", json={})).json()
        assert made["live"] is True
        name = made["id"]
        sent = await web.post(f"/api/sessions/{name}/messages", json={"id": "m1", "text": "Hi"})
        assert sent.status_code == 202
        fate = (await web.get(f"/api/sessions/{name}/messages/m1", params={"wait": 30})).json()
        assert (fate["fate"], fate["turn"]) == ("admitted", 1)
        listener = await server.listen(name)
        await listener.until(event_of("turn/end"))
        await listener.close()
        listed = (await web.get("/api/sessions")).json()["sessions"]
        assert [(one["id"], one["title"]) for one in listed] == [(name, "Hi")]
        assert (await web.get(f"/api/sessions/{name}/events", params={"limit": 1000})).json() == server.log(name)
        lines = (await web.get(f"/api/sessions/{name}/log")).text.splitlines()
        assert len(lines) == len(server.log(name)) + 1
        fork = (await web.post(f"/api/sessions/{name}/fork", json={})).json()
        assert fork["parent"] == name
        assert (await web.delete(f"/api/sessions/{name}")).status_code == 200
        assert (await web.get(f"/api/sessions/{name}")).json()["code"] == "SESSION_NOT_FOUND"
        assert [one["id"] for one in (await web.get("/api/sessions")).json()["sessions"]] == [fork["id"]]
        again = await web.post(f"/api/sessions/{fork['id']}/messages", json={"text": "Go on"})
        assert again.status_code == 202


async def test_a_message_sent_twice_under_one_id_is_delivered_once(kind: str) -> None:
    async with served(scripted(store=MemoryStore()), kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={})).json()["id"]
        path = f"/api/sessions/{name}/messages"
        first = (await web.post(path, json={"id": "m", "text": "Once"})).json()
        second = (await web.post(path, json={"id": "m", "text": "Once"})).json()
        assert (first["duplicate"], second["duplicate"]) == (False, True)
        other = await web.post(path, json={"id": "m", "text": "Another"})
        assert (other.status_code, other.json()["code"]) == (409, "DUPLICATE_MESSAGE")
        assert (await web.get(f"{path}/m?wait=30")).json()["fate"] == "admitted"
        assert (await web.post(path, json={"id": "m", "text": "Once"})).json()["fate"] == "admitted"
        said = [entry for entry in server.log(name) if entry["type"] == "user/message"]
        assert len(said) == 1
        assert (await web.get(f"{path}/nobody")).json()["code"] == "MESSAGE_NOT_FOUND"


async def test_queued_messages_are_edited_reordered_sent_ahead_and_removed(kind: str) -> None:
    gate = Gate()
    host = scripted(Answer(calls=[Call("hold")]), "Steered.", "Next.", store=MemoryStore())
    host.tools.register(tool(gate.hold))
    async with served(host, kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={"message": "Begin"})).json()["id"]
        base = f"/api/sessions/{name}"
        listener = await server.listen(name)
        await listener.until(event_of("tool/call"))
        for number in "abcd":
            await web.post(f"{base}/messages", json={"id": number, "text": number})
        edited = (await web.patch(f"{base}/inbox/b", json={"text": "B!"})).json()
        assert [one["content"][0]["text"] for one in edited["nextTurn"]] == ["a", "B!", "c", "d"]
        ordered = (await web.put(f"{base}/inbox", json={"ids": ["c", "b", "a", "d"]})).json()
        assert [one["id"] for one in ordered["nextTurn"]] == ["c", "b", "a", "d"]
        assert (await web.put(f"{base}/inbox", json={"ids": ["c"]})).json()["code"] == "INBOX_CHANGED"
        assert (await web.delete(f"{base}/inbox/c")).status_code == 200
        assert (await web.get(f"{base}/messages/c")).json()["fate"] == "rejected"
        assert (await web.delete(f"{base}/inbox/c")).json()["code"] == "NOT_PENDING"
        ahead = (await web.post(f"{base}/inbox/a/steer")).json()
        assert [one["id"] for one in ahead["nextStep"]] == ["a"]
        gate.open()
        for number in "abd":
            assert (await web.get(f"{base}/messages/{number}?wait=30")).json()["fate"] == "admitted"
        turns = {number: (await web.get(f"{base}/messages/{number}")).json()["turn"] for number in "abd"}
        assert turns == {"a": 1, "b": 2, "d": 3}
        assert (await web.post(f"{base}/inbox/b/steer")).json()["code"] == "NOT_PENDING"


async def test_a_cancel_stops_the_turn_and_keeps_or_drops_what_waits(kind: str) -> None:
    gate = Gate()
    host = scripted(Answer(calls=[Call("hold")]), store=MemoryStore())
    host.tools.register(tool(gate.hold))
    async with served(host, kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={"message": "Begin"})).json()["id"]
        listener = await server.listen(name)
        await listener.until(event_of("tool/call"))
        await web.post(f"/api/sessions/{name}/messages", json={"id": "later", "text": "later"})
        await web.post(f"/api/sessions/{name}/cancel", json={"keepInbox": True})
        ended = (await listener.until(event_of("turn/end")))[-1]
        assert ended["data"]["data"]["reason"]["kind"] == "aborted"
        await listener.until(lambda told: told["event"] == "state" and told["data"]["state"] == "idle")
        inbox = (await web.get(f"/api/sessions/{name}/inbox")).json()
        assert [one["id"] for one in inbox["nextTurn"]] == ["later"]
        await web.post(f"/api/sessions/{name}/cancel", json={})
        assert (await web.get(f"/api/sessions/{name}/inbox")).json()["nextTurn"] == []


async def test_a_call_that_asks_is_listed_and_answered_once(kind: str) -> None:
    async def act() -> str:
        """Do it."""
        return "done"

    async def ask(_: Any, __: Any) -> AskCall:
        return AskCall("Really?")

    host = scripted(Answer(calls=[Call("act")]), "Fine.", Answer(calls=[Call("act")]), "Well.", store=MemoryStore())
    host.tools.register(tool(act))
    host.on(TOOLS_PRE_EXECUTE, ask)
    async with served(host, kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={"message": "Begin"})).json()["id"]
        listener = await server.listen(name)
        for approved, code in ((True, None), (False, "NOT_APPROVED")):
            told = (await listener.until(lambda one: one["event"] == "approvals" and one["data"]))[-1]
            asked = (await web.get(f"/api/sessions/{name}/approvals")).json()
            assert asked == told["data"]
            assert (asked[0]["tool"], asked[0]["question"]) == ("act", "Really?")
            path = f"/api/sessions/{name}/approvals/{asked[0]['id']}"
            assert (await web.post(path, json={"approved": approved})).status_code == 200
            assert (await web.post(path, json={"approved": True})).json()["code"] == "ANSWERED"
            result = (await listener.until(event_of("tool/result")))[-1]["data"]["data"]
            assert result.get("code") == code
            await listener.until(event_of("turn/end"))
            if approved:
                await web.post(f"/api/sessions/{name}/messages", json={"text": "Again"})
        assert (await web.post(f"/api/sessions/{name}/approvals/none", json={"approved": True})).json()["code"] == (
            "NOT_PENDING"
        )


async def test_a_task_between_turns_runs_by_its_name(kind: str) -> None:
    ran: list[str] = []

    async def tidy(agent: Any, _: Any) -> None:
        ran.append(agent.id)

    async with served(scripted(), kind, maintenance={"tidy": tidy}) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={})).json()["id"]
        assert (await web.post(f"/api/sessions/{name}/maintenance", json={"task": "tidy"})).status_code == 200
        assert ran == [name]
        wrong = await web.post(f"/api/sessions/{name}/maintenance", json={"task": "nothing"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "UNKNOWN_TASK")
        bare = await web.post(f"/api/sessions/{name}/maintenance", json={"task": "compact"})
        assert bare.status_code >= 400
        assert "no compaction is installed" in bare.json()["detail"]


@pytest.mark.rule("Z1")
async def test_a_history_is_compacted_where_a_compaction_is_installed(kind: str) -> None:
    async def in_short(_: SummaryJob) -> str:
        return "in short"

    host = scripted("one", "two", "three")
    Compaction(summarize=in_short, keep_turns=1).install(host)
    async with served(host, kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={})).json()["id"]
        listener = await server.listen(name)
        for number in range(3):
            await web.post(f"/api/sessions/{name}/messages", json={"text": f"{number}"})
            await listener.until(event_of("turn/end"))
        await listener.close()
        assert (await web.post(f"/api/sessions/{name}/maintenance", json={"task": "compact"})).status_code == 200
        assert "in short" in (await web.get(f"/api/sessions/{name}/log")).text


async def test_what_is_wrong_with_a_request_is_told_by_a_problem_document(kind: str) -> None:
    async with served(scripted(), kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={})).json()["id"]
        base = f"/api/sessions/{name}"
        js = {"content-type": "application/json"}
        for response, status, code in (
            (await web.post(f"{base}/messages", json={"nonsense": 1}), 422, "INVALID_BODY"),
            (await web.post(f"{base}/messages", json={}), 422, "INVALID_MESSAGE"),
            (await web.post(f"{base}/messages", json={"text": "a", "mode": "shout"}), 422, "INVALID_BODY"),
            (await web.post(f"{base}/messages", json={"content": [{"type": "tool-call", "callId": "x", "name": "y"}]}), 422, "INVALID_MESSAGE"),
            (await web.post(f"{base}/messages", content=b"{", headers=js), 400, "NOT_JSON"),
            (await web.post(f"{base}/messages", content=b"[" * 100_000, headers=js), 422, "INVALID_BODY"),
            (await web.post(f"{base}/messages", content=b"\xff\xfe", headers=js), 400, "NOT_JSON"),
            (await web.post(f"{base}/messages", content=b"{}", headers={"content-type": "text/plain"}), 415, "NOT_JSON"),
            (await web.get(f"{base}/stream", headers={"last-event-id": "nonsense"}), 400, "MISUSE"),
            (await web.get(f"{base}/events", params={"from": "-1"}), 400, "MISUSE"),
            (await web.get("/api/nothing"), 404, "NOT_FOUND"),
            (await web.put(base, json={}), 405, "METHOD_NOT_ALLOWED"),
            (await web.post(f"{base}/fork", json={}), 409, "NO_STORE"),
        ):  # fmt: skip
            told = response.json()
            assert (response.status_code, told["code"], told["status"]) == (status, code, status), told
            assert response.headers["content-type"] == "application/problem+json"
            assert told["detail"]


async def test_the_interface_is_described_by_a_document_that_names_every_operation(kind: str) -> None:
    async with served(scripted(), kind) as server, server.client("") as web:
        told = (await web.get("/api/openapi.json")).json()
        assert told["openapi"].startswith("3.1")
        paths = {f"{method} {path}" for path, methods in told["paths"].items() for method in methods}
        assert {"post /api/sessions/{session}/messages", "get /api/sessions/{session}/stream"} <= paths
        named = [one["operationId"] for methods in told["paths"].values() for one in methods.values()]
        assert len(named) == len(set(named))
        for methods in told["paths"].values():
            for one in methods.values():
                assert one["summary"].endswith((".", "}."))


@pytest.mark.slow
async def test_idle_agents_are_unloaded_and_come_back_when_they_are_needed(kind: str) -> None:
    limits = Limits(loaded=3)
    async with served(scripted(store=MemoryStore()), kind, limits=limits) as server, server.client() as web:
        names = [(await web.post("/api/sessions", json={})).json()["id"] for _ in range(12)]
        for name in names:
            assert (await web.post(f"/api/sessions/{name}/messages", json={"id": "m", "text": name})).status_code == 202
            assert (await web.get(f"/api/sessions/{name}/messages/m?wait=30")).json()["fate"] == "admitted"
            listener = await server.listen(name)
            await listener.until(lambda told: told["event"] == "state" and told["data"]["state"] == "idle")
            await listener.close()
            assert len(server.host.agents.list()) <= 3
        listed = (await web.get("/api/sessions")).json()["sessions"]
        assert [one["title"] for one in listed] == names[::-1]
        assert sum(one["live"] for one in listed) <= 3
        listener = await server.listen(names[0])
        await listener.until(event_of("turn/end"))
        assert server.host.agents.get(names[0]) is None
        assert (await web.post(f"/api/sessions/{names[0]}/messages", json={"text": "more"})).status_code == 202
        told = await listener.until(event_of("turn/end"))
        assert [one["event"] for one in told if one["event"] in ("reset", "gone")] == []


@pytest.mark.slow
async def test_sessions_that_are_unloaded_and_wanted_at_once_take_every_message(kind: str) -> None:
    limits = Limits(loaded=2)
    async with served(scripted(store=MemoryStore()), kind, limits=limits) as server, server.client() as web:
        names = [(await web.post("/api/sessions", json={})).json()["id"] for _ in range(6)]
        most = 0

        async def say(name: str, number: int) -> None:
            nonlocal most
            body = {"id": f"m{number}", "text": f"message {number}"}
            while True:
                sent = await web.post(f"/api/sessions/{name}/messages", json=body)
                most = max(most, len(server.host.agents.list()))
                if sent.status_code != 503:
                    break
                assert sent.json()["code"] == "TOO_MANY_LIVE"
                await trio.sleep(0.002)
            assert sent.status_code == 202, sent.text

        async with trio.open_nursery() as nursery:
            for name in names:
                for number in range(6):
                    nursery.start_soon(say, name, number)
        assert most <= 2
        for name in names:
            events = (await web.get(f"/api/sessions/{name}/log")).text.splitlines()
            said = [line for line in events if '"user/message"' in line or '"agent/inbox/spliced"' in line]
            assert all(any(f'"m{number}"' in line for line in said) for number in range(6))


async def test_where_nothing_is_idle_no_further_agent_is_loaded(kind: str) -> None:
    gate = Gate()
    host = scripted(Answer(calls=[Call("hold")]), store=MemoryStore())
    host.tools.register(tool(gate.hold))
    async with served(host, kind, limits=Limits(loaded=1)) as server, server.client() as web:
        first = (await web.post("/api/sessions", json={"message": "Begin"})).json()["id"]
        listener = await server.listen(first)
        await listener.until(event_of("tool/call"))
        refused = await web.post("/api/sessions", json={})
        assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_LIVE")
        gate.open()
        await listener.until(event_of("turn/end"))


async def test_an_owner_has_no_more_sessions_than_may_be(kind: str) -> None:
    tokens = {"a" * 20: "anna"}
    limits = Limits(sessions_per_owner=2)
    host = scripted(store=MemoryStore())
    async with served(host, kind, limits=limits, tokens=tokens) as server, server.client("a" * 20) as web:
        names = [(await web.post("/api/sessions", json={})).json()["id"] for _ in range(2)]
        refused = await web.post("/api/sessions", json={})
        assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_SESSIONS")
        assert (await web.post(f"/api/sessions/{names[0]}/fork", json={})).status_code == 429
        await web.delete(f"/api/sessions/{names[0]}")
        assert (await web.post("/api/sessions", json={})).status_code == 201


async def test_the_newest_turn_is_told_to_be_drawn_and_follows_another_log_from_its_beginning(kind: str) -> None:
    store = MemoryStore()
    script = (Answer("Look.", calls=[Call("hold")]), "Seen.", "Other.")
    async with served(scripted(*script, store=store), kind, pictures=LivePictures()) as server, server.client() as web:
        gate = Gate()
        server.host.tools.register(tool(gate.hold))
        name = (await web.post("/api/sessions", json={})).json()["id"]
        path = f"/api/sessions/{name}/turn"
        assert (await web.get(path)).json() == {"number": None}
        await web.post(f"/api/sessions/{name}/messages", json={"text": "Hi"})
        listener = await server.listen(name)
        await listener.until(event_of("tool/call"))
        told = (await web.get(path)).json()
        assert (told["number"], told["open"]) == (1, True)
        assert [span[1] for span in told["spans"]] == ["turn 1", "step 1", "model", "hold()"]
        assert [letter[0] for letter in told["letters"]] == ["Hi"]
        gate.open()
        await listener.until(event_of("turn/end"))
        told = (await web.get(path)).json()
        assert (told["number"], told["open"], len(told["spans"])) == (1, False, 6)
        assert (await web.get("/api/sessions/nobody/turn")).json()["code"] == "SESSION_NOT_FOUND"
        await web.delete(f"/api/sessions/{name}")
        writer = await store.create(SessionHeader(name, 1_790_000_000_000, "/tmp"))
        await writer.close()
        assert (await web.get(path)).json() == {"number": None}


async def test_without_anything_to_draw_with_there_is_no_such_resource(kind: str) -> None:
    async with served(scripted(store=MemoryStore()), kind) as server, server.client() as web:
        name = (await web.post("/api/sessions", json={})).json()["id"]
        assert (await web.get(f"/api/sessions/{name}/turn")).status_code == 404
        assert "/api/sessions/{session}/turn" not in (await web.get("/api/openapi.json")).json()["paths"]
