// The transcript: what the log tells, and what is said and put out just now, as elements. All text is text: nothing of it is markup.

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Give a place other children; what had the focus there keeps it, by its `data-key`, or else the next thing that can have it. */
export function redraw(place, children, otherwise = null) {
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children);
  if (held === undefined) return;
  (place.querySelector(`[data-key="${CSS.escape(held)}"]`) ?? place.querySelector("textarea, button, a") ?? otherwise)?.focus();
}

export const written = (content) => content.map((block) => (block.type === "text" ? block.text : block.type === "reasoning" ? "" : `[${block.type}]`)).join("");

const REASONS = {
  completed: "done", aborted: "stopped", error: "failed", blocked: "blocked", interrupted: "interrupted by a crash",
  "max-tokens": "cut off: the output limit",
};
const SHORT = 60; // characters of arguments that stand beside a tool's name
const MOST = 200000; // characters of live output that are shown of one call

export class Transcript {
  /** `fork` is called with where, and with the prompt that is to be written anew, if any; `spoken` with what is to be read out. */
  constructor(list, fork, spoken) {
    this.list = list;
    this.fork = fork;
    this.spoken = spoken;
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.calls = new Map();
    this.attempt = null;
    this.turn = null; // the open one: where it began, its prompt, and what can be forked after it
    this.inbox = { "next-turn": [], "next-step": [] };
    this.title = "";
  }

  add(item, seq) {
    if (seq !== undefined) item.dataset.seq = seq;
    if (this.attempt && this.attempt.item !== item) this.list.insertBefore(item, this.attempt.item);
    else this.list.append(item);
    return item;
  }

  /** The item that tells an event, or the last one before it. */
  at(seq) {
    return [...this.list.children].findLast((item) => Number(item.dataset.seq ?? Infinity) <= seq) ?? this.list.firstElementChild;
  }

  event({ type, seq, time, data }) {
    switch (type) {
      case "agent/inbox/spliced":
        this.spliced(data, seq);
        break;
      case "turn/start":
        this.turn = { began: seq, time, prompt: null, after: [] };
        break;
      case "user/message":
        this.user(data.message, seq);
        break;
      case "assistant/message":
        this.over(data.attemptId);
        this.answer(data, seq);
        break;
      case "assistant/attempt":
        this.over(data.attemptId);
        if (data.finish?.failure) this.add(make("li", { class: "gone", dir: "auto" }, `The attempt failed: ${data.finish.failure.message}`), seq);
        break;
      case "tool/call":
        this.runs(this.call(data.callId, data.name, data.arguments, seq));
        break;
      case "tool/result":
        this.result(data, seq);
        break;
      case "turn/end":
        this.ended(data, seq, time);
        break;
    }
  }

  spliced({ target, start, removedCount, inserted, outcome }, seq) {
    const removed = this.inbox[target].splice(start, removedCount ?? 0, ...(inserted ?? []));
    const dropped = removed.filter((message) => !(inserted ?? []).some((one) => one.id === message.id));
    if (outcome) for (const message of dropped) this.add(make("li", { class: "note", dir: "auto" }, `Dropped: ${written(message.content)}`), seq);
    else if (this.turn && target === "next-turn") this.turn.prompt ??= dropped[0] ?? null;
  }

  forking(label, title, work) {
    return make("button", { type: "button", class: "fork", "aria-description": title, title, onclick: work }, label);
  }

  user(message, seq) {
    const text = written(message.content);
    this.title ||= text.slice(0, 80);
    const item = make("li", { class: "user" }, make("p", { dir: "auto" }, text));
    if (this.turn) {
      const { began, prompt } = this.turn;
      const title = prompt?.id === message.id ? "Begin a session with what was before this message, and write it anew" : "Begin a session with what was before this turn, and write its prompt anew";
      item.append(this.forking("Fork before this", title, () => this.fork(began, prompt)));
    }
    this.add(item, seq);
  }

  answer({ message, interrupted }, seq) {
    const item = make("li", { class: "assistant" });
    for (const block of message.content) {
      if (block.type === "text") item.append(make("p", { class: "text", dir: "auto" }, block.text));
      else if (block.type === "reasoning") item.append(thought(block.text));
    }
    if (interrupted) item.append(make("p", { class: "gone" }, "cut off"));
    if (item.childNodes.length) {
      this.add(item, seq);
      this.turn?.after.push(item);
      this.spoken(written(message.content.filter((block) => block.type === "text")));
    }
    for (const block of message.content) if (block.type === "tool-call") this.call(block.callId, block.name, block.arguments, seq);
  }

  // --- tools ---

  call(id, name, input, seq) {
    let known = this.calls.get(id);
    if (known && !known.over) return known;
    const state = make("span", { class: "status" }, "waits");
    const output = make("pre", { dir: "auto", hidden: "", tabindex: "0", "aria-label": "Output" });
    const summary = make("summary", {}, make("strong", { dir: "auto" }, name), " ", make("code", { dir: "auto" }, preview(input)), state);
    const whole = isPreviewed(input) ? [] : [make("pre", { class: "input", dir: "auto", tabindex: "0", "aria-label": "Arguments" }, pretty(input))];
    const details = make("details", {}, summary, ...whole, output);
    known = { item: make("li", { class: "tool" }, details), details, state, output, length: 0, over: false };
    this.calls.set(id, known);
    this.add(known.item, seq);
    return known;
  }

  runs(call) {
    call.state.textContent = "runs";
    call.item.classList.add("runs");
  }

  /** What a running call puts out, from character `from` on. */
  output({ callId, from, text, done, total }) {
    const known = this.calls.get(callId);
    if (!known || known.over) return;
    if (done !== null) known.state.textContent = total ? `${Math.round((100 * done) / total)} %` : `${done}`;
    if (from !== known.length) known.output.replaceChildren(from ? `… ${from} characters before …\n` : "");
    known.length = from + text.length;
    if (!text && known.output.hidden) return;
    if (known.output.hidden) known.details.open = true; // what comes live is looked at
    known.output.hidden = false;
    const atEnd = known.output.scrollHeight - known.output.scrollTop - known.output.clientHeight < 40;
    if (known.output.lastChild) known.output.lastChild.appendData(text);
    else known.output.append(text);
    const shown = known.output.lastChild;
    if (shown.length > MOST) shown.deleteData(0, shown.length - MOST);
    if (atEnd) known.output.scrollTop = known.output.scrollHeight;
  }

  result({ callId, content, isError, code }, seq) {
    const known = this.calls.get(callId) ?? this.call(callId, callId, "", seq);
    known.over = true;
    known.state.textContent = isError ? `failed${code ? `: ${code}` : ""}` : "done";
    known.item.classList.remove("runs");
    known.item.classList.toggle("failed", !!isError);
    known.output.hidden = false;
    known.output.textContent = written(content ?? []);
  }

  ended({ turn, reason }, seq, time) {
    const bad = !["completed", "aborted"].includes(reason.kind);
    const took = this.turn ? ` · ${seconds(time - this.turn.time)}` : "";
    const words = `Turn ${turn}: ${REASONS[reason.kind] ?? reason.kind}`;
    const item = make("li", { class: `end${bad ? " bad" : ""}` }, make("span", {}, words + took));
    if (reason.failure) item.append(make("span", { dir: "auto" }, reason.failure.message));
    const title = "Begin a session with everything up to the end of this turn";
    item.append(this.forking("Fork here", title, () => this.fork(seq + 1, null)));
    for (const one of this.turn?.after ?? []) one.append(this.forking("Fork after this turn", title, () => this.fork(seq + 1, null)));
    this.turn = null;
    this.add(item, seq);
    this.spoken(words);
  }

  // --- the live attempt ---

  frames({ attemptId, from, chunks }) {
    if (from === 0 || !this.attempt || this.attempt.id !== attemptId) {
      this.drop();
      this.attempt = { id: attemptId, item: make("li", { class: "assistant live", "aria-busy": "true" }), blocks: new Map() };
      this.list.append(this.attempt.item);
    }
    for (const chunk of chunks) this.chunk(chunk);
  }

  chunk(chunk) {
    const { blocks, item } = this.attempt;
    if (chunk.type === "block-start") {
      const made = chunk.kind === "reasoning" ? thought("") : chunk.kind === "text" ? make("p", { class: "text", dir: "auto" }) : make("pre", { class: "asks", dir: "auto" }, `${chunk.name} `);
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

/** The only value of arguments that are one text; what is no JSON is shown as it is. */
function single(input) {
  try {
    const values = Object.values(JSON.parse(input));
    return values.length === 1 && typeof values[0] === "string" ? values[0] : null;
  } catch {
    return input ?? "";
  }
}

const preview = (input) => (single(input) ?? input).replace(/\s+/g, " ").slice(0, SHORT);

/** Whether the preview has all of it. */
const isPreviewed = (input) => single(input) !== null && single(input) === preview(input);

/** Arguments as they are read best. */
export function pretty(input) {
  const one = single(input);
  if (one !== null) return one;
  try {
    return JSON.stringify(JSON.parse(input), null, 2);
  } catch {
    return input ?? "";
  }
}

function seconds(ms) {
  return ms < 9950 ? `${Math.max(0, ms / 1000).toFixed(1)} s` : ms < 60000 ? `${Math.round(ms / 1000)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}
