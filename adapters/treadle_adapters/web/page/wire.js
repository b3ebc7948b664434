// The wire: requests, one socket for all that is watched, and messages that are on their way until the server has them.

export const base = new URL(".", location.href).pathname;
const PATIENCE = 30000; // ms that a request may take
const SLOWEST = 10000; // ms between two attempts at most
const ASLEEP = 30000; // ms without a tick after which the machine must have slept

/** A request; throws what the server says is the matter, or that it cannot be reached. */
export async function ask(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers }, signal: AbortSignal.timeout(PATIENCE) };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const response = await fetch(base + path, options).catch(() => {
    throw new Error("The server cannot be reached.");
  });
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
    addEventListener("online", () => this.anew());
    addEventListener("offline", () => this.anew());
    document.addEventListener("visibilitychange", () => document.hidden || this.open());
    let tick = Date.now();
    setInterval(() => {
      if (Date.now() - tick > ASLEEP) this.anew();
      tick = Date.now();
    }, 5000);
  }

  /** Give up a connection that may be dead without knowing. */
  anew() {
    const old = this.socket;
    this.socket = null;
    this.status("disconnected");
    if (old) old.close();
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return;
    const address = new URL(base + "api/socket", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(address));
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.delay = 500;
      this.status("connected");
      if (this.watched) this.say({ watch: this.watched, after: this.after ?? undefined });
    };
    socket.onmessage = (event) => {
      const told = JSON.parse(event.data);
      if (this.socket !== socket || told.session !== this.watched) return;
      if (told.id) this.after = told.id;
      this.told(told.event, told.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.status("disconnected");
      this.timer = setTimeout(() => this.open(), this.delay);
      this.delay = Math.min(this.delay * 2, SLOWEST);
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
  /** `changed` is called when there are more or fewer of them, `refused` with what the server says of one it does not take. */
  constructor(changed, refused) {
    this.changed = changed;
    this.refused = refused;
    this.waiting = JSON.parse(sessionStorage.getItem("treadle-outbox") || "[]");
    this.sending = false;
    this.delay = 500;
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

  /** Do not send a message after all; one that is being sent just now may have arrived. */
  forget(id) {
    this.waiting = this.waiting.filter((one) => one.id !== id);
    this.keep();
  }

  /** Send what waits, in order; what could not be sent is tried again by itself. */
  async send() {
    clearTimeout(this.timer);
    if (this.sending) return;
    this.sending = true;
    while (this.waiting.length) {
      const { session, id, text, mode } = this.waiting[0];
      try {
        await ask("POST", `api/sessions/${session}/messages`, { id, text, mode });
        this.delay = 500;
      } catch (error) {
        if (error.status) this.refused(error);
        if (!(error.status >= 400 && error.status < 500) || [401, 408, 429].includes(error.status)) {
          this.timer = setTimeout(() => this.send(), this.delay);
          this.delay = Math.min(this.delay * 2, SLOWEST);
          break;
        }
      }
      this.forget(id);
    }
    this.sending = false;
  }
}
