// The page: which session is shown, what may be done with it, and who may come in.

import { Beside } from "./beside.js";
import { Sessions } from "./sessions.js";
import { Transcript, make, pretty, redraw, written } from "./transcript.js";
import { Waiting } from "./waiting.js";
import { Outbox, Wire, ask, base } from "./wire.js";

const at = (id) => document.getElementById(id);
const transcript = new Transcript(at("transcript"), fork, (words) => caughtUp && (at("spoken").textContent = words.slice(0, 300)));
const outbox = new Outbox(() => waiting.draw(), trouble);
const waiting = new Waiting(at("waiting"), {
  inbox: () => transcript.inbox,
  unsent: () => outbox.of(session),
  forget: (id) => outbox.forget(id),
  working: () => working,
  change: (method, path, body) => attempt(() => ask(method, `api/sessions/${session}/inbox${path}`, body)),
  otherwise: at("say"),
});
const wire = new Wire(told, (status) => {
  at("link").textContent = status;
  at("link").dataset.status = status;
  if (status === "connected") {
    outbox.send();
    sessions.refresh();
  }
});
const sessions = new Sessions({ list: at("sessions"), none: at("none"), more: at("more") }, () => session, trouble);
const beside = new Beside({ panel: at("beside"), lifecycle: at("lifecycle"), caption: at("of-turn"), lanes: at("lanes") }, reveal);
let session = null;
let working = false;
let caughtUp = false; // what was before is not read out
let creating = false;

function trouble(error) {
  const stranger = error?.status === 401;
  at("trouble").textContent = error && !stranger ? String(error.message ?? error) : "";
  if (stranger && !at("door").open) at("door").showModal();
}

async function attempt(work) {
  try {
    trouble(null);
    return await work();
  } catch (error) {
    trouble(error);
    return null;
  }
}

// --- what a stream tells ---

function told(event, data) {
  if (event === "event") {
    transcript.event(data);
    beside.changed();
    if (data.type === "agent/inbox/spliced") waiting.draw();
    if (data.type === "user/message") showTitle();
    at("welcome").hidden = true;
  } else if (event === "frames") {
    if (data.from === 0) beside.changed();
    transcript.frames(data);
  } else if (event === "gone") transcript.gone(data);
  else if (event === "output") transcript.output(data);
  else if (event === "reset") clear();
  else if (event === "state") showState(data);
  else if (event === "approvals") showApprovals(data);
  else if (event === "bye" && data.reason === "deleted") leave();
  else if (event === "problem") {
    at("transcript").hidden = false;
    trouble(data.detail);
  }
}

function clear() {
  transcript.clear();
  waiting.draw();
}

function showState({ live, state, status }) {
  const changed = working !== (status === "running");
  caughtUp = true;
  at("transcript").hidden = false;
  working = status === "running";
  at("state").textContent = !live ? "at rest" : working ? `working · ${state}` : state;
  at("state").classList.toggle("working", working);
  at("stop").hidden = at("queue").hidden = !working;
  at("send").textContent = working ? "Steer" : "Send";
  at("keys").textContent = working ? "Enter steers · Alt+Enter queues · Escape stops" : "Enter sends · Shift+Enter: new line";
  beside.state(live ? state : null);
  if (changed) {
    waiting.draw();
    sessions.refresh();
  }
}

function showTitle() {
  at("title").textContent = session ? transcript.title || "Untitled" : "New session";
  document.title = session ? `${transcript.title || "session"} – treadle` : "treadle";
}

function showApprovals(pending) {
  const asked = pending.map((one) => {
    const answer = (approved) => attempt(() => ask("POST", `api/sessions/${session}/approvals/${one.id}`, { approved }));
    const button = (label, approved, kind) => make("button", { type: "button", class: kind, "data-key": `${one.id} ${label}`, "aria-description": one.question, onclick: () => answer(approved) }, label);
    return make("div", { class: "approval" }, make("p", { dir: "auto" }, one.question), make("code", { dir: "auto" }, one.tool),
      make("pre", { dir: "auto", tabindex: "0", "aria-label": "Arguments", "data-key": one.id }, pretty(one.arguments)),
      make("span", { class: "buttons" }, button("Approve", true, "main"), button("Refuse", false, null)));
  });
  redraw(at("approvals"), asked, at("say"));
}

// --- where in the transcript one is ---

let atEnd = true;
let moved = -Infinity; // when a person last moved it: what grows or shrinks scrolls as well, and takes nobody away from the end
const toEnd = () => (at("scroll").scrollTop = at("scroll").scrollHeight);
for (const kind of ["wheel", "touchmove", "keydown", "focusin", "pointerdown", "pointermove"])
  at("scroll").addEventListener(kind, (event) => (kind !== "pointermove" || event.buttons) && (moved = performance.now()), { passive: true });
at("scroll").addEventListener("scroll", () => {
  const { scrollHeight, scrollTop, clientHeight } = at("scroll");
  const near = scrollHeight - scrollTop - clientHeight < 60;
  if (near || performance.now() - moved < 1000) atEnd = near;
  at("newest").hidden = atEnd;
});
const grown = new ResizeObserver(() => atEnd && toEnd());
grown.observe(at("transcript"));
grown.observe(at("scroll"));
at("newest").addEventListener("click", () => {
  [atEnd, moved] = [true, -Infinity];
  toEnd();
});

function reveal(seq) {
  const item = transcript.at(seq);
  if (!item) return;
  for (const old of document.querySelectorAll(".here")) old.classList.remove("here");
  item.classList.add("here");
  if (narrow()) look(false);
  moved = performance.now();
  item.scrollIntoView({ block: "center" });
}

// --- sessions ---

function show(id) {
  keepDraft();
  session = id;
  transcript.clear();
  waiting.clear();
  showApprovals([]);
  beside.watch(id);
  showState({ live: false, state: null, status: null });
  caughtUp = false;
  at("transcript").hidden = Boolean(id); // a long one is laid out once, when all of it is there
  at("state").textContent = at("spoken").textContent = "";
  showTitle();
  trouble(null);
  at("welcome").hidden = Boolean(id);
  at("download").hidden = at("delete").hidden = !id;
  if (id) {
    at("download").href = `${base}api/sessions/${id}/log`;
    at("download").download = `${id}.jsonl`;
  }
  at("say").value = sessionStorage.getItem(`treadle-draft-${id}`) ?? "";
  atEnd = true;
  menu(false);
  wire.watch(id);
  sessions.refresh();
}

function leave() {
  history.replaceState(null, "", "#");
  show(null);
}

/** Begin a session with the first `upto` events; a prompt that is to be written anew is taken out of it. */
async function fork(upto, prompt) {
  const made = await attempt(() => ask("POST", `api/sessions/${session}/fork`, { upto }));
  if (!made) return;
  if (prompt) {
    await ask("DELETE", `api/sessions/${made.id}/inbox/${encodeURIComponent(prompt.id)}`).catch(() => null); // it may have come later
    sessionStorage.setItem(`treadle-draft-${made.id}`, written(prompt.content));
  }
  location.hash = `session=${made.id}`;
  at("say").focus();
}

function keepDraft() {
  if (at("say").value) sessionStorage.setItem(`treadle-draft-${session}`, at("say").value);
  else sessionStorage.removeItem(`treadle-draft-${session}`);
}

async function send(mode) {
  const text = at("say").value;
  if (!text.trim() || creating) return;
  if (!session) {
    creating = true;
    const made = await attempt(() => ask("POST", "api/sessions", {}));
    creating = false;
    if (!made) return;
    at("say").value = "";
    history.replaceState(null, "", `#session=${made.id}`);
    show(made.id);
  }
  at("say").value = "";
  keepDraft();
  atEnd = true;
  trouble(null);
  outbox.put(session, text, mode);
}

const stop = () => session && working && attempt(() => ask("POST", `api/sessions/${session}/cancel`, { keepInbox: true }));

// --- what is shown of the page ---

const narrow = () => matchMedia("(max-width: 70rem)").matches;

function menu(open) {
  at("side").classList.toggle("open", open);
  at("menu").setAttribute("aria-expanded", String(open));
}

function look(open) {
  at("beside").hidden = !open;
  at("look").setAttribute("aria-expanded", String(open));
  if (open) beside.open();
}

if (beside.there) {
  at("look").hidden = false;
  look(!narrow() && localStorage.getItem("treadle-beside") !== "away");
  at("look").addEventListener("click", () => {
    look(at("beside").hidden);
    localStorage.setItem("treadle-beside", at("beside").hidden ? "away" : "here");
  });
  at("away").addEventListener("click", () => {
    look(false);
    at("look").focus();
  });
}

// --- what a person does ---

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send(working ? "steer" : "followup");
});
at("queue").addEventListener("click", () => send("followup"));
at("stop").addEventListener("click", stop);
at("say").addEventListener("input", keepDraft);
at("say").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(event.altKey || !working ? "followup" : "steer");
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || at("door").open) return;
  if (at("side").classList.contains("open")) menu(false);
  else if (narrow() && !at("beside").hidden) look(false);
  else stop();
});
at("new").addEventListener("click", () => {
  leave();
  at("say").focus();
});
at("delete").addEventListener("click", async () => {
  if (!confirm("Delete this session for good?")) return;
  if (await attempt(() => ask("DELETE", `api/sessions/${session}`))) leave();
});
at("menu").addEventListener("click", () => menu(!at("side").classList.contains("open")));
addEventListener("hashchange", begin);
at("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await logIn(at("token").value.trim());
  } catch (error) {
    at("stranger").textContent = error.status === 401 ? "The server does not know this token." : error.message;
    return;
  }
  at("token").value = at("stranger").textContent = "";
  at("door").close();
  trouble(null);
  begin();
});

const logIn = (token) => ask("POST", "api/login", undefined, { authorization: `Bearer ${token}` });

async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    const token = given.get("token");
    history.replaceState(null, "", location.pathname);
    await attempt(() => logIn(token));
  }
  wire.open();
  const wanted = given.get("session");
  if (wanted !== session || !wanted) show(wanted);
}

beside.begin();
begin();
