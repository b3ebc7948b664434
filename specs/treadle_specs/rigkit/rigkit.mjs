// What a rig in Node.js is written with; one file, no dependency.
//
//   import { FrameworkRig, serve, user, assistant, result } from "./rigkit.mjs";
//
//   class Mine extends FrameworkRig {
//     constructor() { super("mine", "1.0"); }
//     open(tools) {}                        // make the agent; its model and tools go through `model` and `tool`
//     async turn(text, signal) {}           // one run, to its end, with all that was queued meanwhile
//     cancel() { this.controller.abort(); } // stop it; and `steer(text)`, `queue(text)` if there are such
//   }
//   serve(() => new Mine());
//
// `turn` is called in the settle after the delivery: `steer` and `queue` may be called before it, and its text comes
// first all the same. When `cancel` comes before it, `turn` is not called. What `turn` throws goes to stderr.
// `FrameworkRig` is for the profile `fair`; from `core` on, extend `Rig` and tell events.
//
// Requests are read without yielding to the event loop: the driver runs inside `settle` and nowhere else. `settle` goes
// on as long as new asynchronous work appears, or something outside (a socket, a file, a child process) is waited for;
// a timer is waited for only when no gate is open. What the driver prints goes to stderr. Each run has a rig of its own,
// all in one process: what a module keeps for itself, the next run sees.

import { createHook } from "node:async_hooks";
import fs from "node:fs";

const PATIENCE_MS = 10_000; // how long a settle waits for what is outside
const QUIET_ROUNDS = 2; // so often in a row nothing new may appear before a settle ends
const BEYOND = ["dispose", "inbox", "listen", "maintain", "reserve", "release", "update"];

/** A request is refused with a code of the protocol, and changes nothing. */
export class Refused extends Error {
  constructor(code, message = code) {
    super(message);
    this.code = code;
  }
}

/** The driver has no word for it. */
export class Unsupported extends Refused {
  constructor(message) {
    super("unsupported", message);
  }
}

/** The tester wants the tool to end with an error, whose text this is. */
export class ToolError extends Error {}

/** The signal of a run was aborted. */
export class Aborted extends Error {}

let created = 0;
createHook({ init() { created += 1; } }).enable();

/**
 * A rig whose driver tells its own events: add methods named as the verbs (each takes the request; `open` takes the tools
 * and the request), and call `log` and `note`. `settle` reports `running` and `boxes` (lists of message ids): keep them,
 * or override `settle`. A verb that is no method is refused; tell it in `lacks`. Call `hideGates` in a cancel.
 */
export class Rig {
  features = [];
  lacks = [];
  gateKinds = ["model", "tool"];
  events = [];
  notices = [];
  gates = new Map();
  boxes = { "next-turn": [], "next-step": [] };
  running = false;
  #made = 0;
  #hidden = new Set();
  #heard = [];

  constructor(name, version) {
    this.driver = { name, version };
  }

  /** A durable event. */
  log(type, fields = {}) {
    this.events.push({ type, ...fields });
    this.#publish(type);
  }

  /** A notification; `agent/` is put before its name. */
  note(name, fields = {}) {
    this.notices.push({ name: `agent/${name}`, ...fields });
    this.#publish(`notice:agent/${name}`);
  }

  /** Wait for the tester. An aborted signal takes the gate away and rejects with `Aborted`. */
  gate(kind, facts, { name = `g${(this.#made += 1)}`, signal } = {}) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new Aborted());
      const leave = () => {
        this.gates.delete(name);
        reject(new Aborted());
      };
      signal?.addEventListener("abort", leave, { once: true });
      const pass = (answer) => {
        signal?.removeEventListener("abort", leave);
        this.gates.delete(name);
        resolve({ ...answer, gate: name });
      };
      this.gates.set(name, { facts: { gate: name, kind, ...facts }, pass });
    });
  }

  /** What waits now is being cancelled: no gate of it can be passed any more. */
  hideGates() {
    for (const name of this.gates.keys()) this.#hidden.add(name);
  }

  #publish(word) {
    for (const one of this.#heard) {
      if (one.on !== word) continue;
      one.left -= 1;
      if (one.left !== 0 || one.request.do === "raise") continue; // what a listener raises is contained
      try {
        this.apply(one.request);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
      }
    }
  }

  /** Apply one request; returns the fields of its reply, or a promise of them. */
  apply(request) {
    const verb = VERBS.has(request.do) ? this[request.do === "open" ? "opened" : request.do] : undefined;
    if (typeof verb !== "function") throw new Unsupported(`no verb ${request.do}`);
    return verb.call(this, request);
  }

  hello() {
    return { protocol: 1, driver: this.driver, features: [...this.features, "reset"], lacks: this.lacks };
  }

  opened(request) {
    const strange = (request.gates ?? []).filter((kind) => !this.gateKinds.includes(kind));
    if (strange.length) throw new Unsupported(`no gate of kind ${strange.join(", ")}`);
    return this.open(request.tools ?? [], request);
  }

  listen(request) {
    this.#heard.push({ on: request.on, left: request.nth ?? 1, request: request.request });
  }

  async settle() {
    await quiet(() => this.gates.size > 0);
    this.#hidden.clear();
    const [events, notices] = [this.events, this.notices];
    [this.events, this.notices] = [[], []];
    const gates = [...this.gates.values()].map((gate) => gate.facts);
    const status = this.running ? "running" : "idle";
    return { status, state: null, inbox: this.boxes, events, notices, gates };
  }

  pass(request) {
    const gate = this.gates.get(request.gate);
    if (!gate || this.#hidden.has(request.gate)) throw new Refused("no-such-gate", `no gate ${request.gate} waits`);
    gate.pass(request);
  }

  flush() {}
  close() {}
}

/** A rig for a framework without an event log: what is told of it is its model requests, its tool starts, its status. */
export class FrameworkRig extends Rig {
  controller = new AbortController(); // of the run
  cancelled = false;
  #turn = 0;
  #step = 0;

  constructor(name, version, { promised = [], lacks = [] } = {}) {
    super(name, version);
    this.features = promised;
    const without = ["cancel", "steer", "queue"].filter((word) => this[word] === undefined);
    this.lacks = [...lacks, ...without, ...BEYOND];
  }

  /**
   * A model request, whose messages `user`, `assistant` and `result` make: yields `{text}` and `{call: {id, name,
   * arguments}}`, where `arguments` is JSON text. It throws `Aborted` when the signal is aborted.
   */
  async *model(messages, signal = this.controller.signal) {
    this.#step += 1;
    const facts = { turn: this.#turn, step: this.#step, attempt: 1, messages };
    let name;
    for (;;) {
      const answer = await this.gate("model", facts, { name, signal });
      name = answer.gate;
      yield* answer.chunks ?? [];
      if (answer.end && typeof answer.end === "object") throw new Error(answer.end.raise ?? answer.end.error.message);
      if (answer.end != null) return;
    }
  }

  /** A tool runs, for the call of some id: its text. It throws `ToolError` with the text of an error. */
  async tool(call, name, args = "{}", signal = this.controller.signal) {
    const answer = await this.gate("tool", { call, name, arguments: args }, { signal });
    if (answer.raise !== undefined) throw new Error(answer.raise);
    if (answer.error) throw new ToolError(answer.text);
    return answer.text ?? "";
  }

  deliver({ message, target, wakeup = true }) {
    if (!wakeup) throw new Unsupported("no message without a run");
    if (!this.running) return void this.#begin(message.text);
    if (this.cancelled) throw new Refused("busy", "the run is being cancelled");
    const word = target === "next-step" ? "steer" : "queue";
    if (this[word] === undefined) throw new Unsupported(`no ${word}`);
    this[word](message.text);
  }

  apply(request) {
    if (request.do !== "cancel") return super.apply(request);
    if (this.cancel === undefined) throw new Unsupported("no cancel");
    if (!this.running || this.cancelled) return undefined;
    this.cancelled = true;
    this.hideGates();
    this.cancel();
    return undefined;
  }

  #begin(text) {
    [this.running, this.cancelled, this.controller] = [true, false, new AbortController()];
    [this.#turn, this.#step] = [this.#turn + 1, 0];
    this.note("status", { status: "running" });
    this.log("turn/start", { turn: this.#turn });
    setImmediate(() => this.#whole(text));
  }

  async #whole(text) {
    let reason = { reason: "completed" };
    try {
      if (!this.cancelled) await this.turn(text, this.controller.signal);
    } catch (error) {
      if (!this.cancelled) console.error("the run ended:", error);
      reason = { reason: "error", code: error.name };
    }
    if (this.cancelled) reason = { reason: "aborted", cause: "user" };
    this.running = false;
    this.log("turn/end", { turn: this.#turn, ...reason });
    this.note("status", { status: "idle" });
  }
}

const VERBS = new Set(["hello", "open", "deliver", "inbox", "cancel", "reserve", "release", "update", "maintain",
  "dispose", "listen", "settle", "pass", "flush", "close"]); // prettier-ignore

/** A message of the user, as a request has it. */
export const user = (text) => ({ role: "user", text, calls: [], results: [] });
/** An answer of the model, with the ids of the calls that it asks for. */
export const assistant = (text, calls = []) => ({ role: "assistant", text, calls, results: [] });
/** The result of a call, with what the model is told of it where that can be said. */
export const result = (call, text) =>
  ({ role: "user", text: "", calls: [], results: [call], ...(text === undefined ? {} : { outputs: [text] }) });

/** Run until nothing but a gate can go on. */
async function quiet(waits) {
  const until = Date.now() + PATIENCE_MS;
  for (let still = 0; still < QUIET_ROUNDS; ) {
    const others = await round((resolve) => setImmediate(resolve));
    still = others ? 0 : still + 1;
    if (still && outside(waits()) && Date.now() < until) {
      await round((resolve) => setTimeout(resolve, 1));
      still = 0;
    }
  }
}

let rounds = 0; // how many asynchronous resources a round makes by itself; measured before there is a driver
/** Let the loop go round once; returns how much asynchronous work others began meanwhile. */
async function round(executor) {
  const before = created;
  await new Promise(executor);
  return created - before - rounds;
}
async function measure() {
  for (let times = 0; times < 3; times += 1) rounds += await round((resolve) => setImmediate(resolve));
}

const IDLE = new Set(["PipeWrap", "TTYWrap", "Immediate"]);
function outside(gateOpen) {
  return process.getActiveResourcesInfo().some((kind) => !IDLE.has(kind) && !(kind === "Timeout" && gateOpen));
}

function* lines() {
  const piece = Buffer.alloc(65536);
  let rest = Buffer.alloc(0);
  for (;;) {
    let end;
    while ((end = rest.indexOf(10)) >= 0) {
      const line = rest.subarray(0, end).toString("utf8");
      rest = Buffer.from(rest.subarray(end + 1));
      if (line.trim()) yield line;
    }
    const count = fs.readSync(0, piece, 0, piece.length, null);
    if (!count) return;
    rest = Buffer.concat([rest, piece.subarray(0, count)]);
  }
}

/** Serve the tester on stdin and stdout, one rig after the other. */
export async function serve(make) {
  const error = process.stderr;
  globalThis.console = new console.Console(error, error);
  process.stdout.write = error.write.bind(error);
  await measure();
  let rig = make();
  for (const line of lines()) {
    let request = {};
    let reply;
    try {
      request = JSON.parse(line);
      const fields = rig.apply(request);
      reply = { id: request.id, ok: true, ...(fields instanceof Promise ? await fields : fields) };
    } catch (why) {
      if (!(why instanceof Refused)) console.error(why);
      const code = why instanceof Refused ? why.code : why instanceof SyntaxError ? "invalid" : "internal";
      reply = { id: request.id ?? null, ok: false, error: { code, message: String(why.message) } };
    }
    const text = Buffer.from(JSON.stringify(reply) + "\n");
    for (let sent = 0; sent < text.length; ) sent += fs.writeSync(1, text, sent);
    if (request.do !== "close" || !reply.ok) continue;
    if (!request.reset) process.exit(0);
    rig = make();
  }
  process.exit(0);
}
