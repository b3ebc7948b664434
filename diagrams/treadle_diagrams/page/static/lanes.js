"use strict";
// One turn, drawn: what took time in it, and the messages that waited meanwhile. It needs nothing else of the page.

function make(tag, kind, text) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
}

function duration(ms) {
  const seconds = ms / 1000;
  if (Math.round(ms) < 1000) return `${Math.round(ms)}ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  for (const [unit, size, limit] of [["s", 1, 60], ["m", 60, 60], ["h", 3600, 24]])
    if (Math.round(seconds / size) < limit) return `${Math.round(seconds / size)}${unit}`;
  return `${Math.round(seconds / 86400)}d`;
}

// A turn's lanes. Spans and letters are those of the page's data; `until` is where an open turn ends so far, in ms;
// `go` is called with the number of the event that a row stands for.
class Lanes {
  constructor(turn, spans, letters, until, go) {
    const [, label, begin, end, number, outcome] = turn;
    this.go = go;
    this.number = number;
    this.axis = [begin[1], Math.max(begin[1] + 1, end ? end[1] : until)];
    const took = (end ? end[1] : until) - begin[1];
    this.caption = [make("b", "", label), ` · ${duration(took)}${outcome ? " · " + outcome : ""}`];
    const lanes = make("div", "lanes");
    const rows = document.createDocumentFragment();
    for (const span of spans) rows.append(this.spanRow(span));
    const waited = letters.filter((letter) => this.concerns(letter));
    if (waited.length) rows.append(this.inboxHead());
    for (const letter of waited) rows.append(this.letterRow(letter));
    lanes.append(rows, this.overlay(spans));
    this.body = [this.ticks(), lanes];
  }

  // Move the playhead to a time; it is not seen outside of the turn.
  stand(time) {
    this.line.hidden = time < this.axis[0] || time > this.axis[1];
    this.line.style.left = `${this.place(time)}%`;
  }

  place(time) {
    const part = (time - this.axis[0]) / (this.axis[1] - this.axis[0]);
    return 100 * Math.max(0, Math.min(1, part));
  }

  bar(kind, begin, end) {
    const element = make("div", `b-${kind}`);
    element.style.left = `${this.place(begin)}%`;
    element.style.width = `${this.place(end) - this.place(begin)}%`;
    return element;
  }

  row(kind, label, took, seq) {
    const element = make("div", "row");
    const name = make("span", `n-${kind}`, label);
    name.dir = "auto";
    element.title = label;
    element.append(name, make("div"), make("em", "", took === null ? "…" : duration(took)));
    element.addEventListener("click", () => this.go(seq));
    return element;
  }

  spanRow([kind, label, begin, end, , outcome, first]) {
    const until = end ? end[1] : this.axis[1];
    const element = this.row(kind, outcome && kind !== "turn" ? `${label} · ${outcome}` : label, end ? end[1] - begin[1] : null, (end || begin)[0]);
    const track = element.children[1];
    const failed = outcome && kind !== "turn" && outcome !== "interrupted" && outcome !== "ABORTED";
    track.append(this.bar(failed ? "failed" : kind, begin[1], until));
    if (kind === "attempt" && first !== null) track.append(this.bar("waiting", begin[1], first));
    return element;
  }

  // A message concerns the turn that took it, and every turn during which it lay in the inbox.
  concerns(letter) {
    const number = this.number;
    const [, , , , accepted, claimed, settled, turn] = letter;
    const gone = claimed || settled;
    return turn === number || (accepted[1] <= this.axis[1] && (!gone || gone[1] > this.axis[0] || (gone[1] === this.axis[0] && turn === number)));
  }

  letterRow([text, sender, way, fate, accepted, claimed, settled]) {
    const gone = claimed || settled;
    const until = gone ? gone[1] : this.axis[1];
    const dropped = fate !== "entered" && fate !== "pending" && fate !== "claimed";
    const element = this.row("letter", `${text}`, gone ? until - accepted[1] : null, accepted[0]);
    element.title = `${sender}, ${way}: ${text}\naccepted #${accepted[0]}` +
      (claimed ? `\nclaimed #${claimed[0]}` : "") + (settled ? `\n${fate} #${settled[0]}` : `\n${fate}`);
    const track = element.children[1];
    track.append(this.bar(dropped ? "dropped" : "pending", accepted[1], until));
    if (claimed) track.append(this.bar(dropped ? "dropped" : "claimed", claimed[1], settled ? settled[1] : claimed[1]));
    element.children[2].textContent = dropped ? fate : element.children[2].textContent;
    return element;
  }

  inboxHead() {
    const head = make("p", "inbox", "inbox");
    head.append(make("small", "", "waiting"), make("small", "claimed", "claimed, until it entered"), make("small", "gone", "did not enter"));
    return head;
  }

  overlay(spans) {
    const head = make("div", "head");
    for (const [kind, , begin, end] of spans) {
      if (kind !== "cancel") continue;
      const band = make("u");
      band.style.left = `${this.place(begin[1])}%`;
      band.style.width = `${this.place(end ? end[1] : this.axis[1]) - this.place(begin[1])}%`;
      head.append(band);
    }
    this.line = make("i");
    this.line.hidden = true;
    head.append(this.line);
    return head;
  }

  ticks() {
    const element = make("div", "axis");
    const track = make("div");
    const whole = this.axis[1] - this.axis[0];
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 144e5, 864e5]
      .find((size) => whole / size <= 6) || whole;
    for (let time = 0; time <= whole; time += step) {
      const tick = make("span", "", time ? duration(time) : "0");
      tick.style.left = `${100 * time / whole}%`;
      track.append(tick);
    }
    element.append(track);
    return element;
  }
}
