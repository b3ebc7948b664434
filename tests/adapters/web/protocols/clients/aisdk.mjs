// A front end as npm `ai` makes it, told by lines of JSON what to do: {"do": "send" | "answer" | "resume" | "fresh" | "look", …}.
// Each is answered by a line with what the chat holds.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, api, token] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(
  pathToFileURL(`${folder}/dist/index.${folder.endsWith("ai6") ? "mjs" : "js"}`)
);

class State {
  messages = [];
  status = "ready";
  error;
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) => (this.messages = this.messages.with(at, message));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: new State() });
  }
}

let ends = [];
let errors = [];
let finished = () => {};

function made(id) {
  return new Chat({
    id,
    transport: new DefaultChatTransport({ api, headers: { authorization: `Bearer ${token}` } }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => errors.push(error.message),
    onFinish: (end) => {
      ends.push({ isAbort: end.isAbort, isError: end.isError, isDisconnect: end.isDisconnect });
      finished();
    },
  });
}

let chat = made("chat");
const doings = {
  fresh: async ({ id }) => void (chat = made(id)),
  send: async ({ text, waits = true }) => {
    const sent = chat.sendMessage({ text });
    if (waits) await sent;
  },
  forge: async ({ text }) => {
    chat.messages = [{ id: "forged", role: "assistant", parts: [{ type: "text", text }] }];
  },
  answer: async ({ approved }) => {
    const over = new Promise((resolve) => (finished = resolve));
    const asked = chat.messages.at(-1).parts.filter((part) => part.state === "approval-requested");
    for (const part of asked) await chat.addToolApprovalResponse({ id: part.approval.id, approved });
    await over;
  },
  resume: async ({ waits = true }) => {
    const resumed = chat.resumeStream();
    if (waits) await resumed;
  },
  look: async () => {},
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  [ends, errors] = [[], []];
  await doings[asked.do](asked);
  console.log(JSON.stringify({ status: chat.status, messages: chat.messages, ends, errors }));
}
