// What took time in the turn that the page stands in: turn, steps, attempts, tools, convergence; and the inbox.

const turns = data.spans.filter((span) => span[0] === "turn");
const spansOf = new Map();
for (const span of data.spans) {
  if (!spansOf.has(span[4])) spansOf.set(span[4], []);
  spansOf.get(span[4]).push(span);
}
const lettersByTime = data.letters; // in the order in which they came
let drawn = null; // the turn whose waterfall is drawn
let axis = null; // [begin, end] in ms
let line = null; // the element of the playhead

function showWaterfall(seq) {
  const index = Math.max(0, lastUpTo(turns, seq, (span) => span[2][0]));
  const turn = turns[index];
  if (turn === undefined) return;
  if (drawn !== turn) drawWaterfall(turn);
  const time = data.events[at][0];
  line.hidden = time < axis[0] || time > axis[1];
  line.style.left = `${place(time)}%`;
}

function place(time) {
  const part = (time - axis[0]) / (axis[1] - axis[0]);
  return 100 * Math.max(0, Math.min(1, part));
}

function drawWaterfall(turn) {
  drawn = turn;
  const [, label, begin, end, number, outcome] = turn;
  const until = end ? end[1] : data.events[last][0];
  axis = [begin[1], Math.max(begin[1] + 1, until)];
  $("of-turn").replaceChildren(make("b", "", label), ` · ${duration(until - begin[1])}${outcome ? " · " + outcome : ""}`);
  const lanes = make("div", "lanes");
  const rows = document.createDocumentFragment();
  for (const span of spansOf.get(number) || []) rows.append(spanRow(span));
  const letters = lettersByTime.filter((letter) => concerns(letter, number));
  if (letters.length) rows.append(inboxHead());
  for (const letter of letters) rows.append(letterRow(letter));
  lanes.append(rows, overlay(number));
  $("waterfall").replaceChildren(ticks(), lanes);
}

function bar(kind, begin, end) {
  const element = make("div", `b-${kind}`);
  element.style.left = `${place(begin)}%`;
  element.style.width = `${place(end) - place(begin)}%`;
  return element;
}

function row(kind, label, took, seq) {
  const element = make("div", "row");
  const name = make("span", `n-${kind}`, label);
  name.dir = "auto";
  element.title = label;
  element.append(name, make("div"), make("em", "", took === null ? "…" : duration(took)));
  element.addEventListener("click", () => go(seq - data.first));
  return element;
}

function spanRow([kind, label, begin, end, , outcome, first]) {
  const until = end ? end[1] : axis[1];
  const element = row(kind, outcome && kind !== "turn" ? `${label} · ${outcome}` : label, end ? end[1] - begin[1] : null, (end || begin)[0]);
  const track = element.children[1];
  const failed = outcome && kind !== "turn" && outcome !== "interrupted" && outcome !== "ABORTED";
  track.append(bar(failed ? "failed" : kind, begin[1], until));
  if (kind === "attempt" && first !== null) track.append(bar("waiting", begin[1], first));
  return element;
}

// A message concerns the turn that took it, and every turn during which it lay in the inbox.
function concerns(letter, number) {
  const [, , , , accepted, claimed, settled, turn] = letter;
  const gone = claimed || settled;
  return turn === number || (accepted[1] <= axis[1] && (!gone || gone[1] > axis[0] || (gone[1] === axis[0] && turn === number)));
}

function letterRow([text, sender, way, fate, accepted, claimed, settled]) {
  const gone = claimed || settled;
  const until = gone ? gone[1] : axis[1];
  const dropped = fate !== "entered" && fate !== "pending" && fate !== "claimed";
  const element = row("letter", `${text}`, gone ? until - accepted[1] : null, accepted[0]);
  element.title = `${sender}, ${way}: ${text}\naccepted #${accepted[0]}` +
    (claimed ? `\nclaimed #${claimed[0]}` : "") + (settled ? `\n${fate} #${settled[0]}` : `\n${fate}`);
  const track = element.children[1];
  track.append(bar(dropped ? "dropped" : "pending", accepted[1], until));
  if (claimed) track.append(bar(dropped ? "dropped" : "claimed", claimed[1], settled ? settled[1] : claimed[1]));
  element.children[2].textContent = dropped ? fate : element.children[2].textContent;
  return element;
}

function inboxHead() {
  const head = make("p", "inbox", "inbox");
  head.append(make("small", "", "waiting"), make("small", "claimed", "claimed, until it entered"), make("small", "gone", "did not enter"));
  return head;
}

function overlay(number) {
  const head = make("div", "head");
  for (const [kind, , begin, end] of spansOf.get(number) || []) {
    if (kind !== "cancel") continue;
    const band = make("u");
    band.style.left = `${place(begin[1])}%`;
    band.style.width = `${place(end ? end[1] : axis[1]) - place(begin[1])}%`;
    head.append(band);
  }
  line = make("i");
  head.append(line);
  return head;
}

function ticks() {
  const element = make("div", "axis");
  const track = make("div");
  const whole = axis[1] - axis[0];
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
