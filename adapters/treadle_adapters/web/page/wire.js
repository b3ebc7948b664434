// The wire: requests, one socket for all that is watched, and messages that are on their way until the server has them.

export const base = new URL(".", location.href).pathname;

/** A request; throws what the server says is the matter. */
export async function ask(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const response = await fetch(base + path, options);
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(told.detail || response.statusText), { status: response.status, code: told.code });
  return told;
}

export function freshId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One socket; comes back by itself, and goes on watching from where it was. */
export class Wire {
  constructor(told, status) {
    this.told = told;
    this.status = status;
    this.watched = null;
    this.after = null;
    this.delay = 500;
    this.socket = null;
    addEventListener("online", () => this.open());
  }

  open() {
    clearTimeout(this.timer);
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return;
    const address = new URL(base + "api/socket", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(address));
    socket.onopen = () => {
      this.delay = 500;
      this.status("connected");
      if (this.watched) this.say({ watch: this.watched, after: this.after ?? undefined });
    };
    socket.onmessage = (event) => {
      const told = JSON.parse(event.data);
      if (told.session !== this.watched) return;
      if (told.id) this.after = told.id;
      this.told(told.event, told.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.status("disconnected");
      this.timer = setTimeout(() => this.open(), this.delay);
      this.delay = Math.min(this.delay * 2, 10000);
    };
  }

  say(words) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(words));
  }

  watch(session) {
    if (this.watched) this.say({ unwatch: this.watched });
    this.watched = session;
    this.after = null;
    if (session) this.say({ watch: session });
  }
}

/** Messages that the server may not have yet. Their ids make sending them again harmless, also after a reload. */
export class Outbox {
  constructor(changed) {
    this.changed = changed;
    this.waiting = JSON.parse(sessionStorage.getItem("treadle-outbox") || "[]");
    this.sending = false;
  }

  put(session, text, mode) {
    this.waiting.push({ session, id: freshId(), text, mode });
    this.keep();
    this.send();
  }

  keep() {
    sessionStorage.setItem("treadle-outbox", JSON.stringify(this.waiting));
    this.changed();
  }

  of(session) {
    return this.waiting.filter((one) => one.session === session);
  }

  async send() {
    if (this.sending) return;
    this.sending = true;
    let trouble = null;
    try {
      while (this.waiting.length) {
        const { session, id, text, mode } = this.waiting[0];
        await ask("POST", `api/sessions/${session}/messages`, { id, text, mode });
        this.waiting.shift();
        this.keep();
      }
    } catch (error) {
      trouble = error;
      const refused = error.status >= 400 && error.status < 500 && ![401, 408, 429].includes(error.status);
      if (refused) {
        this.waiting.shift();
        this.keep();
      }
    }
    this.sending = false;
    return trouble;
  }
}
