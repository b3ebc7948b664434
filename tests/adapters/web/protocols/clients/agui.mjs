// A front end as npm `@ag-ui/client` makes it, told by lines of JSON what to do: {"do": "send" | "answer", …}.
// Each is answered by a line with what the agent holds.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, url, token] = process.argv.slice(2);
const { HttpAgent } = await import(pathToFileURL(`${folder}/dist/index.mjs`));
const agent = new HttpAgent({ url, threadId: "thread", headers: { authorization: `Bearer ${token}` } });

async function run(parameters) {
  const kinds = [];
  const told = { outcome: null, error: null };
  try {
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => void kinds.push(event.type),
      onRunFinishedEvent: ({ outcome }) => void (told.outcome = outcome),
      onRunErrorEvent: ({ event }) => void (told.error = event.message),
      onRunFailed: ({ error }) => void (told.failed = error.message),
    });
  } catch (error) {
    told.thrown = error.message;
  }
  return { ...told, kinds };
}

let number = 0;
const doings = {
  send: async ({ text }) => {
    agent.addMessage({ id: `message-${number++}`, role: "user", content: text });
    return await run({});
  },
  answer: async ({ approved }) => {
    const resume = agent.pendingInterrupts.map((one) => ({ interruptId: one.id, status: "resolved", payload: { approved } }));
    return await run({ resume });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const told = await doings[asked.do](asked);
  console.log(JSON.stringify({ ...told, messages: agent.messages, pending: agent.pendingInterrupts ?? [] }));
}
