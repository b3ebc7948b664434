// What waits: messages of the inbox, which can be edited, removed, put in order and sent ahead, and those not sent yet.

import { make, redraw, written } from "./transcript.js";

export class Waiting {
  /** `inbox` and `unsent` give what waits, `forget` drops what was not sent, `change` asks for a change of the inbox and returns whether it was made; the focus goes `otherwise` when nothing waits any more. */
  constructor(place, { inbox, unsent, forget, working, change, otherwise }) {
    Object.assign(this, { place, inbox, unsent, forget, working, change, otherwise });
    this.editing = null; // the message whose text is being changed, with the text so far: what others change leaves it alone
  }

  clear() {
    this.editing = null;
    this.draw();
  }

  draw() {
    const { "next-turn": queued, "next-step": steering } = this.inbox();
    if (this.editing && ![...queued, ...steering].some((one) => one.id === this.editing.id)) this.editing = null;
    const rows = [
      ...steering.map((message) => this.row(message, "next step", this.changes(message))),
      ...queued.map((message, index) => this.row(message, "queued", [...this.changes(message), ...this.moves(queued, index)])),
      ...this.unsent().map((one) => make("li", { class: "unsent" }, make("span", { dir: "auto" }, one.text), make("em", {}, "not sent yet"),
        make("button", { type: "button", onclick: () => this.forget(one.id), "data-key": `${one.id} Remove`, "aria-description": one.text.slice(0, 60) }, "Remove"))),
    ];
    redraw(this.place, rows.length ? [make("ol", {}, ...rows)] : [], this.otherwise);
  }

  row(message, kind, buttons) {
    if (this.editing?.id === message.id) return this.editor(message);
    return make("li", {}, make("span", { dir: "auto" }, written(message.content)), make("em", {}, kind), make("span", { class: "buttons" }, ...buttons));
  }

  button(message, label, work) {
    const text = written(message.content).slice(0, 60);
    return make("button", { type: "button", onclick: work, "data-key": `${message.id} ${label}`, "aria-description": text }, label);
  }

  changes(message) {
    const path = `/${encodeURIComponent(message.id)}`;
    return [
      this.button(message, "Edit", () => this.edit({ id: message.id, text: written(message.content) })),
      this.button(message, "Remove", () => this.change("DELETE", path)),
    ];
  }

  moves(queued, index) {
    const message = queued[index];
    const ids = queued.map((one) => one.id);
    const up = [...ids.slice(0, index - 1), message.id, ids[index - 1], ...ids.slice(index + 1)];
    return [
      ...(this.working() ? [this.button(message, "Send ahead", () => this.change("POST", `/${encodeURIComponent(message.id)}/steer`))] : []),
      ...(index ? [this.button(message, "Up", () => this.change("PUT", "", { ids: up }))] : []),
    ];
  }

  edit(next) {
    this.editing = next;
    this.draw();
    this.place.querySelector("textarea")?.focus();
  }

  editor(message) {
    const save = async () => {
      if (await this.change("PATCH", `/${encodeURIComponent(message.id)}`, { text: this.editing.text })) this.edit(null);
    };
    const keys = (event) => {
      if (event.key === "Escape") this.edit(null);
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) save();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    const field = make("textarea", { dir: "auto", rows: "2", "aria-label": "New text", "data-key": `${message.id} text`, onkeydown: keys, oninput: () => (this.editing.text = field.value) });
    field.value = this.editing.text;
    return make("li", { class: "editor" }, field, make("button", { type: "button", onclick: save, "data-key": `${message.id} Save` }, "Save"),
      make("button", { type: "button", onclick: () => this.edit(null), "data-key": `${message.id} Leave` }, "Leave"));
  }
}
