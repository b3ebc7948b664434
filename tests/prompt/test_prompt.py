"""The system prompt: sections, contexts, variables, tool schemas (R1, R2, R3)."""

from typing import Any

import pytest
import trio

from tests.stage import stage
from treadle import Answer, Call, Host, MisuseError, Text, UserMessage, tool
from treadle.errors import PromptError
from treadle.hooks import PRE_STEP, SYSTEM_PROMPT_ASSEMBLE, Enter, Prompt, Reject, Scope
from treadle.models import ToolSchema
from treadle.prompt import PERSONA, ContextSource, PromptRegistry
from treadle.session import Replace, UserMessageAdded
from treadle.words.events import APPEND


def system_of(request: Any) -> str:
    return "".join([one.text for one in request.messages if one.role == "system"])


def schema(name: str) -> ToolSchema:
    return ToolSchema(name, name, {"type": "object"})


@pytest.mark.rule("R1")
async def test_sections_stand_in_order_then_by_name_and_empty_ones_leave_no_gap() -> None:
    async with stage("done") as s:
        s.host.prompt.section("b", "B")
        s.host.prompt.section("a", "A")
        s.host.prompt.section("first", "F", order=-1)
        s.host.prompt.section("none", lambda assembly: None)

        async def last(assembly: Any) -> str:
            await trio.lowlevel.checkpoint()
            return f"turn {assembly.turn} of {assembly.agent.id == s.agent.id}"

        s.agent.prompt.section("last", last, order=9)
        await s.ask()
        assert system_of(s.model.requests[0]) == "F\n\nA\n\nB\n\nturn 1 of True"


@pytest.mark.rule("R1", "R3")
async def test_an_agents_own_section_shadows_the_hosts_until_it_is_taken_out() -> None:
    async with stage() as s:
        s.host.prompt.persona("You are the house default.")
        undo = s.agent.prompt.persona("You are special.")
        await s.ask("1")
        undo()
        undo()
        await s.ask("2")
        assert system_of(s.model.requests[0]) == "You are special."
        assert system_of(s.model.requests[1]).endswith("You are the house default.")
        with pytest.raises(MisuseError, match="already"):
            s.host.prompt.section(PERSONA, "again")


@pytest.mark.rule("R3")
async def test_the_plain_attribute_is_the_agents_own_persona_word_for_word() -> None:
    async with stage() as s:
        s.host.prompt.persona("default")
        s.agent.system_prompt = "mine {{braces}}"
        assert s.agent.system_prompt == "mine {{braces}}"
        await s.ask("1")
        s.agent.system_prompt = ""
        await s.ask("2")
        assert system_of(s.model.requests[0]) == "mine {{braces}}"
        assert system_of(s.model.requests[1]).endswith("default")


@pytest.mark.rule("R1")
@pytest.mark.parametrize("kind", ["section", "context", "variable", "tool_schemas"])
def test_duplicates_in_one_layer_are_refused_and_shadowing_is_not(kind: str) -> None:
    host = Scope("host")
    agent = Scope("agent", host)

    def register(scope: Scope) -> Any:
        return getattr(PromptRegistry(scope), kind)("x", (lambda _: []) if kind == "tool_schemas" else "text")

    undo = register(host)
    with pytest.raises(MisuseError, match="already"):
        register(host)
    register(agent)
    undo()
    register(host)


@pytest.mark.rule("R1")
@pytest.mark.parametrize(
    ("name", "content"), [("", "x"), (5, "x"), ("x", 5), ("x", lambda: "no argument"), ("x", "\ud800"), ("a\n", "x")]
)
def test_wrong_parts_are_refused_when_they_are_registered(name: Any, content: Any) -> None:
    with pytest.raises(MisuseError):
        PromptRegistry(Scope("x")).section(name, content)


@pytest.mark.rule("R1")
async def test_variables_are_filled_in_and_other_braces_are_left_alone() -> None:
    async with stage() as s:
        asked: list[str] = []

        async def value(assembly: Any) -> str:
            asked.append("value")
            return "{{os}}"

        s.host.prompt.variable("os", "Linux")
        s.host.prompt.variable("name", value)
        s.host.prompt.variable("unused", lambda assembly: asked.append("unused") or "x")
        s.host.prompt.section("1", "On {{os}} as {{ name }} and {{name}}, {json: {}} {{1}} {{ }}")
        s.host.prompt.section("2", lambda assembly: "verbatim {{whatever}}")
        s.host.prompt.section("3", lambda assembly: "filled {{os}}", template=True)
        s.host.prompt.section("4", "raw {{os}}", template=False)
        await s.ask()
        assert system_of(s.model.requests[0]) == (
            "On Linux as {{os}} and {{os}}, {json: {}} {{1}} {{ }}\n\nverbatim {{whatever}}\n\nfilled Linux\n\nraw {{os}}"
        )
        assert asked == ["value"]


@pytest.mark.rule("R1")
async def test_a_variables_nearest_value_is_taken() -> None:
    async with stage() as s:
        s.host.prompt.variable("name", "house")
        s.host.prompt.section("1", "I am {{name}}")
        s.agent.prompt.variable("name", "special")
        await s.ask()
        assert system_of(s.model.requests[0]) == "I am special"


@pytest.mark.rule("R2", "T9", "L8")
@pytest.mark.parametrize("what", ["missing", "raising", "wrong type", "variable", "schemas", "context", "two complete"])
async def test_a_missing_variable_or_failing_provider_ends_that_turn_and_nothing_else(what: str) -> None:
    def fail(_: Any) -> Any:
        raise ValueError("disk on fire")

    async with stage("done") as s:
        prompt = s.agent.prompt
        undo = {
            "missing": lambda: prompt.section("x", "{{nobody}}"),
            "raising": lambda: prompt.section("x", fail),
            "wrong type": lambda: prompt.section("x", lambda _: 5),  # type: ignore[arg-type,return-value]
            "variable": lambda: (prompt.variable("v", fail), prompt.section("x", "{{v}}"))[1],
            "schemas": lambda: prompt.tool_schemas("x", lambda _: ["no schema"]),  # type: ignore[list-item]
            "context": lambda: prompt.context("x", fail),
            "two complete": lambda: (
                s.host.prompt.section("y", "y", complete=True),
                prompt.section("x", "x", complete=True),
            )[1],
        }[what]()
        await s.ask("1")
        assert s.ends == ["error PROMPT_FAILED"]
        assert s.model.requests == []
        assert isinstance(s.errors[0].error, PromptError)
        assert "x" in str(s.errors[0].error) or "v" in str(s.errors[0].error)
        undo()
        await s.ask("2")
        assert s.ends[-1] == "completed"


@pytest.mark.rule("R1")
async def test_one_complete_section_is_the_whole_prompt() -> None:
    async with stage() as s:
        s.host.prompt.persona("persona")
        undo = s.agent.prompt.section("all", "Only this, {{name}}.", complete=True)
        s.host.prompt.variable("name", "friend")
        await s.ask("1")
        assert system_of(s.model.requests[0]) == "Only this, friend."
        undo()
        await s.ask("2")
        assert system_of(s.model.requests[1]).endswith("persona")


@pytest.mark.rule("R1", "Q1")
async def test_a_context_is_recorded_before_the_prompt_and_again_only_when_it_changed() -> None:
    async with stage() as s:
        now = ["Monday"]
        s.host.prompt.context("day", lambda assembly: now[0])
        s.agent.prompt.context("place", "Berlin", order=-1)
        await s.ask("1")
        await s.ask("2")
        now[0] = "Tuesday"
        await s.ask("3")
        now[0] = None  # type: ignore[call-overload]
        await s.ask("4")
        users = [one for one in s.agent.session.history() if isinstance(one, UserMessage)]
        assert [one.text for one in users] == ["Berlin", "Monday", "1", "2", "Tuesday", "3", "4"]
        assert users[0].source == ContextSource("place")


@pytest.mark.rule("R1", "Q2")
async def test_contexts_are_asked_for_at_each_step_and_enter_between_them() -> None:
    @tool
    def go() -> str:
        count[0] += 1
        return "x"

    count = [0]
    async with stage(Answer(calls=[Call("go")]), "done", tools=[go]) as s:
        s.host.prompt.context("count", lambda assembly: f"count {count[0]}")
        await s.ask("1")
        assert s.requests[1][-2:] == ["result call_1", "user count 1"] or s.requests[1][-1] == "user count 1"


@pytest.mark.rule("R1", "T8")
async def test_a_context_alone_causes_no_step() -> None:
    async with stage() as s:
        s.host.prompt.context("day", "Monday")

        async def hook(payload: Any, proceed: Any) -> Any:
            return Enter([one for one in payload.messages if not isinstance(one.source, ContextSource)][:0])

        undo = s.host.on(PRE_STEP, hook)
        await s.ask("1")
        assert s.model.requests == []
        undo()
        await s.ask("2")
        assert s.requests == [["user Monday", "user 2"]]


@pytest.mark.rule("R1", "T2")
async def test_a_snapshot_that_a_hook_took_out_is_offered_again() -> None:
    async with stage() as s:
        s.host.prompt.context("day", "Monday")

        async def reject(payload: Any, proceed: Any) -> Any:
            return Reject()

        undo = s.host.on(PRE_STEP, reject)
        await s.ask("1")
        undo()
        await s.ask("2")
        assert s.requests == [["user Monday", "user 2"]]


@pytest.mark.rule("R1", "S3")
async def test_a_snapshot_that_left_the_history_is_made_again() -> None:
    async with stage() as s:
        s.host.prompt.context("day", "Monday")
        await s.ask("1")
        session = s.agent.session
        seqs = [node.seq for node in session.surface.nodes]
        summary = UserMessageAdded(UserMessage("summary", (Text("so far"),), ContextSource("summary")))
        session.append(summary, surface_op=Replace(seqs[0], seqs[-1]), sources=seqs)
        await s.ask("2")
        assert s.requests[1] == ["user so far", "user Monday", "user 2"]
        session.append(
            UserMessageAdded(UserMessage("by hand", (Text("Monday"),), ContextSource("other"))), surface_op=APPEND
        )
        await s.ask("3")
        assert s.requests[2].count("user Monday") == 2


@pytest.mark.rule("R1", "P4")
async def test_after_a_resume_a_context_that_did_not_change_is_not_told_again() -> None:
    async with stage() as s:
        s.host.prompt.context("day", "Monday")
        await s.ask("1")
        seed = list(s.agent.session.events)
        again = await s.host.agents.create(seed=seed, agent_options=s.agent.options)
        again.agent.followup("2")
        await again.agent.when_idle()
        assert s.requests[1] == ["user Monday", "user 1", "assistant 'Done.'", "user 2"]


@pytest.mark.rule("R1", "K1")
async def test_tool_schemas_of_providers_are_told_in_canonical_order() -> None:
    @tool
    def middle() -> str:
        return "x"

    async with stage(tools=[middle]) as s:

        async def more(assembly: Any) -> list[ToolSchema]:
            return [schema("zeta"), schema("alpha")]

        undo = s.host.prompt.tool_schemas("remote", more)
        await s.ask("1")
        assert [one.name for one in s.model.requests[0].tools] == ["alpha", "middle", "zeta"]
        s.host.tools.set_order(["zeta"])
        await s.ask("2")
        assert [one.name for one in s.model.requests[1].tools] == ["zeta", "alpha", "middle"]
        s.host.prompt.tool_schemas("clash", lambda _: [schema("middle")])
        await s.ask("3")
        assert s.ends[-1] == "error PROMPT_FAILED"
        undo()


@pytest.mark.rule("R1")
async def test_the_hosts_tool_order_is_told_to_the_model() -> None:
    tools = [tool(lambda: "x", name=name, description=name, parameters={"type": "object"}) for name in "abc"]
    async with stage(host=Host(tool_order=["c"]), tools=tools) as s:
        await s.ask()
        assert [one.name for one in s.model.requests[0].tools] == ["c", "a", "b"]


@pytest.mark.rule("R1", "H1")
async def test_an_assemble_hook_can_change_or_replace_the_prompt() -> None:
    async with stage() as s:
        asked: list[str] = []
        s.host.prompt.section("a", lambda assembly: asked.append("section") or "A")

        async def change(payload: Any, proceed: Any) -> Any:
            prompt = await proceed()
            return Prompt(prompt.system + "!", prompt.tools, prompt.contexts)

        async def replace(payload: Any, proceed: Any) -> Any:
            return Prompt("mine")

        undo = s.host.on(SYSTEM_PROMPT_ASSEMBLE, change)
        await s.ask("1")
        undo()
        s.host.on(SYSTEM_PROMPT_ASSEMBLE, replace)
        await s.ask("2")
        assert system_of(s.model.requests[0]) == "A!"
        assert system_of(s.model.requests[1]).endswith("mine")
        assert asked == ["section"]


@pytest.mark.rule("R1", "C8")
async def test_a_cancel_while_a_provider_is_awaited_ends_the_turn_aborted() -> None:
    async with stage() as s:

        async def slow(assembly: Any) -> str:
            s.agent.cancel()
            await trio.sleep_forever()
            return "x"

        s.agent.prompt.section("slow", slow)
        await s.ask()
        assert s.ends == ["aborted user"]
        assert s.model.requests == []


@pytest.mark.rule("O5", "R1")
async def test_prompt_parts_end_with_their_scope() -> None:
    async with stage() as s:
        feature = Scope("feature", s.host.scope)
        handle = await s.host.agents.create(agent_options=s.agent.options, owner=feature)
        PromptRegistry(feature).section("x", "feature text")
        handle.agent.followup("1")
        await handle.agent.when_idle()
        await s.ask("2")
        assert [system_of(request) for request in s.model.requests] == ["feature text", ""]


@pytest.mark.rule("R1", "R2")
async def test_odd_providers_and_names_are_told_apart() -> None:
    async with stage() as s:
        with pytest.raises(MisuseError, match="letters, digits"):
            s.agent.prompt.variable("no spaces", "x")
        with pytest.raises(MisuseError, match="function"):
            s.agent.prompt.tool_schemas("x", "text")  # type: ignore[arg-type]
        s.agent.prompt.variable("nothing", lambda assembly: None)  # type: ignore[arg-type,return-value]
        undo = s.agent.prompt.section("x", "{{nothing}}")
        await s.ask("1")
        assert "gave no text" in str(s.errors[0].error)
        undo()
        s.agent.prompt.section("half", lambda assembly: "\ud800")
        await s.ask("2")
        assert "lone surrogate" in str(s.errors[1].error)
        assert s.ends == ["error PROMPT_FAILED"] * 2


@pytest.mark.rule("R2")
async def test_a_provider_whose_signature_cannot_be_read_is_tried_when_it_is_needed() -> None:
    async with stage() as s:
        s.agent.prompt.section("x", getattr)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await s.ask("1")
        assert s.ends == ["error PROMPT_FAILED"]


@pytest.mark.rule("R1", "K1")
async def test_schemas_of_a_provider_are_told_in_the_same_dialect_as_those_of_tools() -> None:
    field = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"nullable": True}},
    }
    async with stage("one") as s:
        s.agent.prompt.tool_schemas("more", lambda assembly: [ToolSchema("more", "More.", field)])
        await s.ask()
        (told,) = s.model.requests[0].tools
        assert told.parameters == {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}
