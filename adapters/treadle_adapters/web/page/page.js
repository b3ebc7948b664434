// The page: which session is shown, what may be done with it, and who may come in.

import { Transcript, make } from "./transcript.js";
import { Outbox, Wire, ask, base } from "./wire.js";

const at = (id) => document.getElementById(id);
const transcript = new Transcript(at("transcript"), fork);
const outbox = new Outbox(showWaiting);
const wire = new Wire(told, (status) => {
  at("link").textContent = status;
  if (status === "connected") flush();
});
let session = null;
let working = false;
let editing = null; // the message whose text is being changed, with the text so far: what others change meanwhile leaves it alone

function trouble(error) {
  at("trouble").textContent = error ? String(error.message ?? error) : "";
  if (error && error.status === 401) at("door").showModal();
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

async function flush() {
  const error = await outbox.send();
  if (error && error.status) trouble(error);
}

// --- what a stream tells ---

function told(event, data) {
  if (event === "event") {
    transcript.event(data);
    if (data.type === "agent/inbox/spliced") showWaiting();
    if (data.type === "user/message") showTitle();
  } else if (event === "frames") transcript.frames(data);
  else if (event === "gone") transcript.gone(data);
  else if (event === "reset") transcript.clear();
  else if (event === "state") showState(data);
  else if (event === "approvals") showApprovals(data);
  else if (event === "bye" && data.reason === "deleted") show(null);
  else if (event === "problem") trouble(data.detail);
}

function showState({ live, state, status }) {
  working = status === "running";
  at("state").textContent = live ? state : "not in memory";
  at("stop").hidden = at("queue").hidden = !working;
  at("send").textContent = working ? "Steer" : "Send";
  list();
}

function showTitle() {
  at("title").textContent = session ? transcript.title || session : "No session";
  document.title = session ? `${transcript.title || "session"} – treadle` : "treadle";
}

function showApprovals(pending) {
  at("approvals").replaceChildren(
    ...pending.map((one) => {
      const answer = (approved) => attempt(() => ask("POST", `api/sessions/${session}/approvals/${one.id}`, { approved }));
      return make("div", { class: "approval" }, make("p", { dir: "auto" }, one.question), make("pre", { dir: "auto" }, `${one.tool} ${one.arguments}`),
        make("button", { type: "button", onclick: () => answer(true) }, "Approve"), " ",
        make("button", { type: "button", onclick: () => answer(false) }, "Refuse"));
    }),
  );
}

function showWaiting() {
  const queued = transcript.inbox["next-turn"];
  const change = (method, path, body) => attempt(() => ask(method, `api/sessions/${session}/inbox${path}`, body));
  const row = (message, buttons) => make("li", {}, make("span", { dir: "auto" }, message.content.map((block) => block.text ?? "").join("")), ...buttons);
  const button = (label, work) => make("button", { type: "button", onclick: work }, label);
  const editable = (message, index) => {
    const path = `/${encodeURIComponent(message.id)}`;
    const ids = queued.map((one) => one.id);
    if (editing?.id === message.id) return editor(async (text) => (await change("PATCH", path, { text })) && finish());
    return row(message, [
      button("Edit", () => finish({ id: message.id, text: message.content.map((block) => block.text ?? "").join("") })),
      button("Remove", () => change("DELETE", path)),
      ...(working ? [button("Send ahead", () => change("POST", `${path}/steer`))] : []),
      ...(index ? [button("Up", () => change("PUT", "", { ids: [...ids.slice(0, index - 1), message.id, ids[index - 1], ...ids.slice(index + 1)] }))] : []),
    ]);
  };
  const steering = transcript.inbox["next-step"].map((message) => row(message, [button("Remove", () => change("DELETE", `/${encodeURIComponent(message.id)}`))]));
  const unsent = outbox.of(session).map((one) => make("li", {}, make("span", { dir: "auto" }, one.text), "not sent yet"));
  if (editing && !queued.some((one) => one.id === editing.id)) editing = null;
  const rows = [...steering, ...queued.map(editable), ...unsent];
  const held = at("waiting").contains(document.activeElement) && document.activeElement.matches("textarea");
  at("waiting").replaceChildren(...(rows.length ? [make("ol", {}, ...rows)] : []));
  if (held) at("waiting").querySelector("textarea")?.focus();
}

function finish(next = null) {
  editing = next;
  showWaiting();
  if (editing) at("waiting").querySelector("textarea")?.focus();
}

function editor(save) {
  const field = make("textarea", { dir: "auto", "aria-label": "New text", oninput: () => (editing.text = field.value) });
  field.value = editing.text;
  return make("li", {}, field, make("button", { type: "button", onclick: () => save(editing.text) }, "Save"), make("button", { type: "button", onclick: () => finish() }, "Leave"));
}

// --- sessions ---

async function list() {
  const told = await attempt(() => ask("GET", "api/sessions"));
  if (!told) return;
  at("sessions").replaceChildren(
    ...told.sessions.map((one) => make("li", {}, make("a", { href: `#session=${one.id}`, "aria-current": one.id === session ? "page" : null },
      make("span", { dir: "auto" }, one.title || "untitled"), make("small", {}, `${new Date(one.createdAt).toLocaleString()} ${one.state ?? ""}`)))),
  );
}

function show(id) {
  keepDraft();
  session = id;
  editing = null;
  transcript.clear();
  showApprovals([]);
  showState({ live: false, state: null, status: null });
  at("state").textContent = "";
  showTitle();
  showWaiting();
  at("download").hidden = at("delete").hidden = !id;
  if (id) {
    at("download").href = `${base}api/sessions/${id}/log`;
    at("download").download = `${id}.jsonl`;
  }
  at("say").value = sessionStorage.getItem(`treadle-draft-${id}`) ?? "";
  at("side").classList.remove("open");
  wire.watch(id);
}

async function fork(upto) {
  const made = await attempt(() => ask("POST", `api/sessions/${session}/fork`, { upto }));
  if (made) location.hash = `session=${made.id}`;
}

function keepDraft() {
  if (at("say").value) sessionStorage.setItem(`treadle-draft-${session}`, at("say").value);
  else sessionStorage.removeItem(`treadle-draft-${session}`);
}

async function send(mode) {
  const text = at("say").value;
  if (!text.trim()) return;
  if (!session) {
    const made = await attempt(() => ask("POST", "api/sessions", {}));
    if (!made) return;
    at("say").value = "";
    history.replaceState(null, "", `#session=${made.id}`);
    show(made.id);
  }
  at("say").value = "";
  keepDraft();
  outbox.put(session, text, mode);
  flush();
}

const stop = () => session && working && attempt(() => ask("POST", `api/sessions/${session}/cancel`, { keepInbox: true }));

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
addEventListener("keydown", (event) => event.key === "Escape" && !at("door").open && stop());
at("new").addEventListener("click", () => {
  history.replaceState(null, "", "#");
  show(null);
  at("say").focus();
});
at("delete").addEventListener("click", async () => {
  if (!confirm("Delete this session for good?")) return;
  if (await attempt(() => ask("DELETE", `api/sessions/${session}`))) {
    history.replaceState(null, "", "#");
    show(null);
  }
});
at("menu").addEventListener("click", () => at("menu").setAttribute("aria-expanded", String(at("side").classList.toggle("open"))));
addEventListener("hashchange", begin);
addEventListener("visibilitychange", () => document.hidden || list());
at("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await logIn(at("token").value.trim())) {
    at("door").close();
    begin();
  }
});

const logIn = (token) => attempt(() => ask("POST", "api/login", undefined, { authorization: `Bearer ${token}` }));

async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    const token = given.get("token");
    history.replaceState(null, "", location.pathname);
    await logIn(token);
  }
  wire.open();
  const wanted = given.get("session");
  if (wanted !== session || !wanted) show(wanted);
}

begin();
