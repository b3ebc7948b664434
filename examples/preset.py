"""A preset: a composition in YAML. Agents bound to it see what it brings, and keep the revision they started with."""

from pathlib import Path

import trio

from treadle import AgentOptions, Host, ScriptedModel, tool
from treadle.presets import Composition, read_definition


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {len(text)} characters to {path}"


def checklist(composition: Composition, items: list[str]) -> None:
    """A component of our own: it adds to the prompt, and offers a service."""
    composition.prompt.section("checklist", "Check: " + ", ".join(items) + ".", order=20)
    composition.provide("checklist", tuple(items))


async def main() -> None:
    model = ScriptedModel(default="Looks good.")
    options = AgentOptions(provider="scripted", model="small")
    async with Host() as host:
        host.models.register("scripted", model)
        host.tools.register(write)
        host.presets.component("checklist", checklist)
        await host.presets.register(read_definition(Path(__file__).with_name("preset.yaml")))

        free = (await host.agents.create(agent_options=options)).agent
        reviewer = (await host.agents.create(agent_options=options, agent_preset="preset")).agent
        for agent in (free, reviewer):
            agent.followup("Please review line 1.")
            await agent.when_idle()

        for name, request in zip(("free", "reviewer"), model.requests, strict=True):
            prompt = " | ".join([message.text for message in request.messages if message.role == "system"])
            print(f"{name}: tools {[schema.name for schema in request.tools]}, prompt {prompt!r}")
        print("service:", host.presets.service_for(reviewer, "checklist"), host.presets.service_for(free, "checklist"))


trio.run(main)
