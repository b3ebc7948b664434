"""Where an agent, or a part of what lasts, is made: one list of doors, beside those of ``tests.doors`` (D3, S1, X3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.doors import Mark
from tests.stage import Stage, note
from treadle import Event, Host, ScriptedModel, Text, UserMessage, subagent, tool
from treadle.presets import Composition, ModelSelection, PresetDefinition
from treadle.session import Append, UserMessageAdded

Making = Callable[[Host, Stage, str], Any]


def named(name: str) -> ScriptedModel:
    """An adapter of a name."""
    model = ScriptedModel()
    model.name = name
    return model


MAKINGS: dict[str, Making] = {
    "a session's folder": lambda host, s, text: host.agents.create(cwd="/" + text),
    "a session's id": lambda host, s, text: host.agents.create(session_id=text),
    "a session's origin": lambda host, s, text: host.agents.create(origin=text),
    "a session's parent": lambda host, s, text: host.agents.create(parent_session=text),
    "a session's preset": lambda host, s, text: host.agents.create(agent_preset=text),
    "a message of a seed": lambda host, s, text: host.agents.create(
        seed=[Event("user/message", 0, 0, UserMessageAdded(UserMessage("a", (Text(text),))), Append())]
    ),
    "an event of a seed": lambda host, s, text: host.agents.create(seed=[Event("doors-test/mark", 0, 0, Mark(text))]),
    "what is asked": lambda host, s, text: s.agent.ask(text),
    "a provider's name": lambda host, s, text: host.models.register(text, ScriptedModel()),
    "an adapter's name": lambda host, s, text: host.models.register("more", named(text)),
    "a default model": lambda host, s, text: host.default_model.save(ModelSelection("scripted", text)),
    "a persona": lambda host, s, text: s.agent.prompt.replace_persona(text),
    "a persona that is registered": lambda host, s, text: s.agent.prompt.persona(text),
    "a section": lambda host, s, text: s.agent.prompt.section("one", text),
    "a section's name": lambda host, s, text: s.agent.prompt.section(text, "one"),
    "a context": lambda host, s, text: s.agent.prompt.context("one", text),
    "a context's name": lambda host, s, text: s.agent.prompt.context(text, "one"),
    "a variable": lambda host, s, text: s.agent.prompt.variable("one", text),
    "a variable's name": lambda host, s, text: s.agent.prompt.variable(text, "one"),
    "a name of tool schemas": lambda host, s, text: s.agent.prompt.tool_schemas(text, lambda assembly: []),
    "a tool's name": lambda host, s, text: tool(note, name=text, parameters={"type": "object"}),
    "a tool's description": lambda host, s, text: tool(note, description=text, parameters={"type": "object"}),
    "a tool's schema": lambda host, s, text: tool(note, parameters={"type": "object", "title": text}),
    "a tool's output": lambda host, s, text: tool(note, parameters={"type": "object"}, output_schema={"title": text}),
    "a sub-agent's name": lambda host, s, text: subagent(text),
    "a sub-agent's description": lambda host, s, text: subagent(description=text),
    "a preset's id": lambda host, s, text: host.presets.register(PresetDefinition(text, "- persona: one")),
    "a preset's document": lambda host, s, text: host.presets.register(PresetDefinition("p", f"- persona: {text}")),
    "a preset's title": lambda host, s, text: host.presets.register(PresetDefinition("p", "", title=text)),
    "a preset's description": lambda host, s, text: host.presets.register(PresetDefinition("p", "", description=text)),
    "a component's name": lambda host, s, text: host.presets.component(text, print),
    "a selected preset": lambda host, s, text: host.presets.select(s.agent, text),
}
"""Doors of what lasts; each raises for text that cannot be recorded."""

COMPOSED: dict[str, Callable[[Composition, str], object]] = {
    "a persona": lambda composition, text: composition.prompt.persona(text),
    "a section": lambda composition, text: composition.prompt.section("one", text),
    "a section's name": lambda composition, text: composition.prompt.section(text, "one"),
    "a context": lambda composition, text: composition.prompt.context("one", text),
    "a context's name": lambda composition, text: composition.prompt.context(text, "one"),
    "a variable": lambda composition, text: composition.prompt.variable("one", text),
    "a tool's name": lambda composition, text: composition.tools.register(
        tool(note, name=text, parameters={"type": "object"})
    ),
    "a tool's description": lambda composition, text: composition.tools.register(
        tool(note, description=text, parameters={"type": "object"})
    ),
}
"""Doors of a component of a preset; a preset through which such text would come is broken, and says so."""
