// The transcript: what the log tells, and what the live attempt says, as elements. All text is text: nothing of it is markup.

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const written = (content) => content.map((block) => (block.type === "text" ? block.text : block.type === "reasoning" ? "" : `[${block.type}]`)).join("");

const REASONS = {
  completed: "done", aborted: "stopped", error: "failed", blocked: "blocked", interrupted: "interrupted by a crash",
  "max-tokens": "cut off: the output limit",
};

export class Transcript {
  constructor(list, fork) {
    this.list = list;
    this.fork = fork;
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.calls = new Map();
    this.attempt = null;
    this.turnBegan = null;
    this.inbox = { "next-turn": [], "next-step": [] };
    this.title = "";
  }

  add(item) {
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 80;
    if (this.attempt && this.attempt.item !== item && this.attempt.item.isConnected) this.list.insertBefore(item, this.attempt.item);
    else this.list.append(item);
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  event({ type, seq, data }) {
    switch (type) {
      case "agent/inbox/spliced":
        this.inbox[data.target].splice(data.start, data.removedCount ?? 0, ...(data.inserted ?? []));
        break;
      case "turn/start":
        this.turnBegan = seq;
        break;
      case "user/message":
        this.user(data.message);
        break;
      case "assistant/message":
        this.over(data.attemptId);
        this.answer(data);
        break;
      case "assistant/attempt":
        this.over(data.attemptId);
        if (data.finish?.failure) this.add(make("li", { class: "gone", dir: "auto" }, `The attempt failed: ${data.finish.failure.message}`));
        break;
      case "tool/call":
        this.call(data.callId, data.name, data.arguments).state.textContent = "runs";
        break;
      case "tool/result":
        this.result(data);
        break;
      case "turn/end":
        this.ended(data, seq);
        break;
    }
  }

  user(message) {
    const text = written(message.content);
    this.title ||= text.slice(0, 80);
    const item = make("li", { class: "user" }, make("p", { dir: "auto" }, text));
    if (this.turnBegan !== null) {
      const upto = this.turnBegan;
      item.append(make("button", { type: "button", onclick: () => this.fork(upto) }, "Fork before this"));
      this.turnBegan = null;
    }
    this.add(item);
  }

  answer({ message, interrupted }) {
    const item = make("li", { class: "assistant" });
    for (const block of message.content) {
      if (block.type === "text") item.append(make("p", { class: "text", dir: "auto" }, block.text));
      else if (block.type === "reasoning") item.append(thought(block.text));
    }
    if (interrupted) item.append(make("p", { class: "gone" }, "cut off"));
    if (item.childNodes.length) this.add(item);
    for (const block of message.content) if (block.type === "tool-call") this.call(block.callId, block.name, block.arguments);
  }

  call(id, name, input) {
    let known = this.calls.get(id);
    if (!known) {
      const state = make("span", {}, "waits");
      const output = make("pre", { dir: "auto", hidden: "" });
      const details = make("details", {}, make("summary", {}, make("strong", { dir: "auto" }, name), " ", state), make("pre", { dir: "auto" }, input ?? ""), output);
      known = { item: make("li", { class: "tool" }, details), state, output };
      this.calls.set(id, known);
      this.add(known.item);
    }
    return known;
  }

  result({ callId, content, isError, code }) {
    const known = this.call(callId, callId, "");
    known.state.textContent = isError ? `failed${code ? `: ${code}` : ""}` : "done";
    known.item.classList.toggle("failed", !!isError);
    known.output.hidden = false;
    known.output.textContent = written(content ?? []);
  }

  ended({ turn, reason }, seq) {
    const item = make("li", { class: `end${["completed", "aborted"].includes(reason.kind) ? "" : " bad"}` }, `Turn ${turn}: ${REASONS[reason.kind] ?? reason.kind}`);
    if (reason.failure) item.append(make("span", { dir: "auto" }, reason.failure.message));
    item.append(make("button", { type: "button", onclick: () => this.fork(seq + 1) }, "Fork here"));
    this.add(item);
  }

  // --- the live attempt ---

  frames({ attemptId, from, chunks }) {
    if (from === 0 || !this.attempt || this.attempt.id !== attemptId) {
      this.drop();
      this.attempt = { id: attemptId, item: make("li", { class: "assistant live", "aria-busy": "true" }), blocks: new Map() };
      this.list.append(this.attempt.item);
    }
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 80;
    for (const chunk of chunks) this.chunk(chunk);
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  chunk(chunk) {
    const { blocks, item } = this.attempt;
    if (chunk.type === "block-start") {
      const made = chunk.kind === "reasoning" ? thought("") : chunk.kind === "text" ? make("p", { class: "text", dir: "auto" }) : make("pre", { class: "tool", dir: "auto" }, `${chunk.name} `);
      const into = chunk.kind === "reasoning" ? made.lastChild : made;
      item.append(made);
      blocks.set(chunk.index, into);
    } else if (chunk.text !== undefined) {
      const into = blocks.get(chunk.index);
      if (into && into.lastChild) into.lastChild.appendData(chunk.text);
      else if (into) into.append(chunk.text);
    }
  }

  over(attemptId) {
    if (this.attempt && this.attempt.id === attemptId) this.drop();
  }

  gone({ attemptId }) {
    if (!this.attempt || this.attempt.id !== attemptId) return;
    this.drop();
    this.add(make("li", { class: "gone" }, "What was being said here was lost: it is not in the log"));
  }

  drop() {
    if (this.attempt) this.attempt.item.remove();
    this.attempt = null;
  }
}

function thought(text) {
  return make("details", { class: "thought" }, make("summary", {}, "Thoughts"), make("p", { class: "text", dir: "auto" }, text));
}
