// pi-agent-core behind the rig protocol: `Agent.prompt`, `steer`, `followUp` and `abort`; what a request holds is what
// the adapters of pi-ai make of the messages (`transformMessages`).
//
// npm: @mariozechner/pi-agent-core@0.73.1

import { readFileSync } from "node:fs";
import { FrameworkRig, ToolError, assistant, result, serve, user } from "../../specs/treadle_specs/rigkit/rigkit.mjs";

const INSTALLED = new URL("../../.rigs/pi_agent_core/node_modules/@mariozechner/", import.meta.url);
const { Agent } = await import(new URL("pi-agent-core/dist/index.js", INSTALLED));
const { createAssistantMessageEventStream } = await import(new URL("pi-ai/dist/utils/event-stream.js", INSTALLED));
const { transformMessages } = await import(new URL("pi-ai/dist/providers/transform-messages.js", INSTALLED));
const { version } = JSON.parse(readFileSync(new URL("pi-agent-core/package.json", INSTALLED), "utf8"));

const MODEL = { id: "m", name: "m", api: "openai-completions", provider: "p", baseUrl: "", reasoning: false, input: ["text"],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100_000, maxTokens: 1000 }; // prettier-ignore
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }; // prettier-ignore

const words = (content) =>
  typeof content === "string" ? content : content.filter((one) => one.type === "text").map((one) => one.text).join("");

function told(message) {
  if (message.role === "user") return user(words(message.content));
  if (message.role === "toolResult") return result(message.toolCallId, words(message.content));
  return assistant(words(message.content), message.content.filter((one) => one.type === "toolCall").map((one) => one.id));
}

const said = (text) => ({ role: "user", content: [{ type: "text", text }], timestamp: 0 });

class PiAgent extends FrameworkRig {
  constructor() {
    super("pi-agent-core", version, { promised: ["steer", "queue"] });
  }

  open(tools) {
    this.agent = new Agent({
      initialState: { model: MODEL, systemPrompt: "", tools: tools.map((tool) => this.body(tool)) },
      streamFn: (model, context, options) => this.stream(context, options.signal),
      steeringMode: "all",
    });
  }

  body({ name, mode }) {
    const execute = async (call, _, signal) => {
      const text = await this.tool(call, name, "{}", signal);
      return { content: [{ type: "text", text }], details: {} };
    };
    const executionMode = mode === "exclusive" ? "sequential" : "parallel";
    return { name, label: name, description: "-", parameters: { type: "object", properties: {} }, execute, executionMode };
  }

  stream(context, signal) {
    const stream = createAssistantMessageEventStream();
    const partial = { role: "assistant", content: [], api: MODEL.api, provider: MODEL.provider, model: MODEL.id, usage: USAGE,
      stopReason: "stop", timestamp: 0 }; // prettier-ignore
    this.feed(stream, partial, transformMessages(context.messages, MODEL).map(told), signal);
    return stream;
  }

  async feed(stream, partial, messages, signal) {
    stream.push({ type: "start", partial });
    try {
      for await (const { text, call } of this.model(messages, signal)) {
        const contentIndex = partial.content.length;
        if (call) {
          const toolCall = { type: "toolCall", id: call.id, name: call.name, arguments: {} };
          partial.content.push(toolCall);
          stream.push({ type: "toolcall_start", contentIndex, partial });
          stream.push({ type: "toolcall_end", contentIndex, toolCall, partial });
        } else {
          partial.content.push({ type: "text", text });
          stream.push({ type: "text_start", contentIndex, partial });
          stream.push({ type: "text_delta", contentIndex, delta: text, partial });
          stream.push({ type: "text_end", contentIndex, content: text, partial });
        }
      }
      partial.stopReason = partial.content.some((one) => one.type === "toolCall") ? "toolUse" : "stop";
      stream.push({ type: "done", reason: partial.stopReason, message: partial });
    } catch (error) {
      [partial.stopReason, partial.errorMessage] = [signal?.aborted ? "aborted" : "error", String(error)];
      stream.push({ type: "error", reason: partial.stopReason, error: partial });
    }
    stream.end();
  }

  async turn(text) {
    await this.agent.prompt(said(text));
  }

  steer(text) {
    this.agent.steer(said(text));
  }

  queue(text) {
    this.agent.followUp(said(text));
  }

  cancel() {
    this.agent.clearAllQueues(); // what waits is the caller's to drop or to keep
    this.agent.abort();
  }
}

serve(() => new PiAgent());
