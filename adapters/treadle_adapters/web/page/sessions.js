// The list of sessions: what there is, which one is shown, and what each is doing.

import { make, redraw } from "./transcript.js";
import { ask } from "./wire.js";

const EVERY = 15000; // ms after which others' sessions are looked for
const WORKING = { running: "working", idle: "", parked: "parked" };

export class Sessions {
  constructor({ list, none, more }, shown, failed) {
    this.list = list;
    this.none = none;
    this.more = more;
    this.shown = shown;
    this.failed = failed;
    this.pages = 1;
    this.asking = false;
    more.addEventListener("click", () => {
      this.pages++;
      this.refresh();
    });
    document.addEventListener("visibilitychange", () => this.refresh());
  }

  /** Ask again; what is asked meanwhile is answered by one further request. */
  async refresh() {
    clearTimeout(this.timer);
    this.again = this.asking;
    if (this.asking || document.hidden) return;
    this.asking = true;
    try {
      const sessions = [];
      let next = null;
      for (let page = 0; page < this.pages; page++) {
        const told = await ask("GET", `api/sessions${next ? `?after=${encodeURIComponent(next)}` : ""}`);
        sessions.push(...told.sessions);
        next = told.next;
        if (!next) break;
      }
      this.draw(sessions, next);
    } catch (error) {
      if (error.status === 401) this.failed(error);
    }
    this.asking = false;
    this.timer = setTimeout(() => this.refresh(), this.again ? 200 : EVERY);
  }

  draw(sessions, next) {
    const shown = this.shown();
    redraw(this.list,
      sessions.map((one) =>
        make("li", {}, make("a", { href: `#session=${one.id}`, "data-key": one.id, "aria-current": one.id === shown ? "page" : null },
          make("span", { dir: "auto" }, one.title || "untitled"),
          make("small", {}, when(one.modified ?? one.createdAt), ...(WORKING[one.status] ? [make("b", {}, WORKING[one.status])] : []))))),
    );
    this.none.hidden = sessions.length > 0;
    this.more.hidden = !next;
  }
}

function when(time) {
  const then = new Date(time);
  const today = then.toDateString() === new Date().toDateString();
  return today ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : then.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" });
}
