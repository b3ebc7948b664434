// A toy driver in JavaScript behind the rig protocol, with the kit for Node.js.
//
//   treadle conform --rig "node examples/node_rig.mjs" --profile fair

import { FrameworkRig, ToolError, assistant, result, serve, user } from "../specs/treadle_specs/rigkit/rigkit.mjs";

class Toy extends FrameworkRig {
  constructor() {
    super("node-toy", "1", { promised: ["streamed-text", "started-calls", "steer", "queue"] });
    [this.history, this.steering, this.queued] = [[], [], []];
  }

  open(tools) {
    this.exclusive = new Set(tools.filter((tool) => tool.mode === "exclusive").map((tool) => tool.name));
  }

  steer(text) { this.steering.push(text); } // prettier-ignore
  queue(text) { this.queued.push(text); } // prettier-ignore

  cancel() {
    [this.steering, this.queued] = [[], []];
    this.controller.abort();
  }

  async turn(text) {
    this.history.push(user(text));
    for (;;) {
      const calls = await this.ask();
      await this.run(calls);
      if (this.steering.length) this.history.push(...this.steering.splice(0).map(user));
      else if (!calls.length && this.queued.length) this.history.push(user(this.queued.shift()));
      else if (!calls.length) return;
    }
  }

  async ask() {
    let text = "";
    const calls = [];
    try {
      for await (const chunk of this.model([...this.history])) {
        text += chunk.text ?? "";
        if (chunk.call) calls.push(chunk.call);
      }
    } catch (error) {
      if (text) this.history.push(assistant(text));
      throw error;
    }
    this.history.push(assistant(text, calls.map((call) => call.id)));
    return calls;
  }

  async run(calls) {
    const places = calls.map((call) => result(call.id)); // also of what is cancelled: every call is answered
    this.history.push(...places);
    const parallel = [];
    for (const call of calls) {
      if (this.exclusive.has(call.name)) await Promise.all(parallel.splice(0));
      const running = this.call(call);
      if (this.exclusive.has(call.name)) await running;
      else parallel.push(running);
    }
    await Promise.all(parallel);
  }

  async call({ id, name, arguments: given }) {
    try {
      await this.tool(id, name, given);
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
    }
  }
}

serve(() => new Toy());
