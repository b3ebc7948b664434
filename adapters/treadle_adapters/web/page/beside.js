// Beside the transcript: the lifecycle with the state that it is in, and the newest turn, which grows as it runs.
// Both are drawn by what the server was given to draw with; where that is nothing, nothing stands there.

import { ask } from "./wire.js";

const REST = 400; // ms between two requests, at least
const LONGEST = 3000; // and at most, where answers take long
const BEAT = 500; // ms between two drawings of a turn that is open

export class Beside {
  constructor({ panel, lifecycle, caption, lanes }, go) {
    Object.assign(this, { panel, lifecycle, caption, lanes, go });
    this.there = lifecycle.childElementCount > 0;
    this.session = null;
    this.asking = false;
    this.turn = null;
    document.addEventListener("visibilitychange", () => this.changed());
  }

  async begin() {
    if (this.there) this.Lanes = (await import("./drawing.js")).Lanes;
    this.changed();
  }

  get seen() {
    return this.Lanes && this.session && !document.hidden && !this.panel.hidden;
  }

  watch(session) {
    this.session = session;
    this.turn = null;
    this.caption.textContent = "No turn yet";
    this.lanes.replaceChildren();
    this.state(null);
    this.changed();
  }

  /** Mark the state that the agent is in; an agent that is not in memory rests. */
  state(name) {
    this.now = null;
    for (const element of this.lifecycle.querySelectorAll("[data-state]")) {
      const is = this.session !== null && element.dataset.state === (name ?? "idle");
      element.classList.toggle("now", is);
      if (is) this.now = element;
    }
    this.follow();
  }

  /** Where the drawing is wider than there is room, show the part with the state. */
  follow() {
    if (!this.now || this.panel.hidden) return;
    const room = this.lifecycle.getBoundingClientRect();
    const state = this.now.getBoundingClientRect();
    this.lifecycle.scrollLeft += (state.left + state.right - room.left - room.right) / 2;
  }

  /** It can be seen now. */
  open() {
    this.follow();
    this.changed();
  }

  /** There is more to tell: ask for it soon. */
  changed() {
    this.due = true;
    if (this.asking || !this.seen) return;
    clearTimeout(this.timer);
    this.ask();
  }

  async ask() {
    this.asking = true;
    this.due = false;
    const session = this.session;
    const began = performance.now();
    try {
      const told = await ask("GET", `api/sessions/${session}/turn`);
      if (session === this.session && told.number !== null) {
        this.turn = { ...told, at: performance.now() };
        this.draw();
      }
    } catch {
      this.due = true; // it is asked again with what comes next
    }
    const took = performance.now() - began;
    setTimeout(() => {
      this.asking = false;
      if (this.due || session !== this.session) this.changed();
    }, Math.max(REST, Math.min(took * 4, LONGEST)));
  }

  draw() {
    clearTimeout(this.beat);
    if (!this.turn || !this.seen) return;
    const { spans, letters, open, until, at, leftOut } = this.turn;
    const now = open ? until + performance.now() - at : until;
    const drawn = new this.Lanes(spans[0], spans, letters, now, this.go);
    this.caption.replaceChildren(...drawn.caption, ...(leftOut ? [` · the last of it, ${leftOut} earlier ones are left out`] : []));
    this.lanes.replaceChildren(...drawn.body);
    if (open) this.beat = setTimeout(() => this.draw(), BEAT);
  }
}
