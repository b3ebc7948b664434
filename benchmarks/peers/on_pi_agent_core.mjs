// pi-agent-core on Node.js: `Agent.prompt`, `subscribe` for pieces.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const INSTALLED = new URL("../../.rigs/pi_agent_core/node_modules/@mariozechner/", import.meta.url);
const { Agent } = await import(new URL("pi-agent-core/dist/index.js", INSTALLED));
const { createAssistantMessageEventStream } = await import(new URL("pi-ai/dist/utils/event-stream.js", INSTALLED));
const { version } = JSON.parse(readFileSync(new URL("pi-agent-core/package.json", INSTALLED), "utf8"));

const MODEL = { id: "m", name: "m", api: "openai-completions", provider: "p", baseUrl: "", reasoning: false, input: ["text"],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100_000, maxTokens: 1000 }; // prettier-ignore
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }; // prettier-ignore
const TOOL = { name: "work", label: "work", description: "Works.", parameters: { type: "object", properties: {} },
  execute: async () => ({ content: [{ type: "text", text: "worked" }], details: {} }) }; // prettier-ignore

function expect(got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    console.error(`${JSON.stringify(wanted)} was to come of it, not ${JSON.stringify(got)}`);
    process.exit(1);
  }
}

// A stream of an answer: text in pieces, or a call.
function answer({ text, pieces = 1, call }) {
  const stream = createAssistantMessageEventStream();
  const partial = { role: "assistant", content: [], api: MODEL.api, provider: MODEL.provider, model: MODEL.id, usage: USAGE,
    stopReason: "stop", timestamp: 0 }; // prettier-ignore
  const contentIndex = 0;
  stream.push({ type: "start", partial });
  if (call) {
    const toolCall = { type: "toolCall", id: call, name: "work", arguments: {} };
    partial.content.push(toolCall);
    partial.stopReason = "toolUse";
    stream.push({ type: "toolcall_start", contentIndex, partial });
    stream.push({ type: "toolcall_end", contentIndex, toolCall, partial });
  } else {
    const block = { type: "text", text: "" };
    partial.content.push(block);
    stream.push({ type: "text_start", contentIndex, partial });
    for (let piece = 0; piece < pieces; piece++) {
      block.text += text;
      stream.push({ type: "text_delta", contentIndex, delta: text, partial });
    }
    stream.push({ type: "text_end", contentIndex, content: block.text, partial });
  }
  stream.push({ type: "done", reason: partial.stopReason, message: partial });
  stream.end();
  return stream;
}

function scripted(answers) {
  const given = answers[Symbol.iterator]();
  return new Agent({ initialState: { model: MODEL, systemPrompt: "", tools: [TOOL] },
    streamFn: () => answer(given.next().value) }); // prettier-ignore
}

const last = (agent) => agent.state.messages.at(-1).content[0].text;

const KINDS = {
  async turns(count, timed) {
    const agent = scripted(Array.from({ length: count }, () => ({ text: "Done." })));
    await timed(async () => {
      for (let turn = 0; turn < count; turn++) await agent.prompt("go");
    });
    expect([last(agent), agent.state.messages.length], ["Done.", 2 * count]);
  },
  async steps(count, timed) {
    const agent = scripted([...Array.from({ length: count }, (_, number) => ({ call: `call-${number}` })), { text: "Done." }]);
    await timed(() => agent.prompt("go"));
    expect([last(agent), agent.state.messages.length], ["Done.", 2 * count + 2]);
  },
  async chunks(count, timed) {
    const agent = scripted([{ text: "word ", pieces: count }]);
    let heard = 0;
    agent.subscribe((event) => {
      heard += event.type === "message_update" && event.assistantMessageEvent.type === "text_delta";
    });
    await timed(() => agent.prompt("go"));
    expect(heard, count);
  },
};

console.log(version);
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, amount] = line.split(" ");
  let spent = 0;
  await KINDS[kind](Number(amount), async (work) => {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    spent += (user + system) / 1e6;
  });
  console.log(spent);
}
