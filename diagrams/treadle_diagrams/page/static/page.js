// The page: which event it stands at, and what follows from that. Everything is set as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const last = data.events.length - 1;
let at = last; // the event the page stands at, counted from 0

// The last of `list` whose `place` is not beyond `limit`; -1 if there is none.
function lastUpTo(list, limit, place) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (place(list[middle]) <= limit) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// --- what is on the page, in the order of the log

const marked = [...document.querySelectorAll("[data-seq]")]
  .map((element) => [Number(element.dataset.seq), element])
  .sort((one, other) => one[0] - other[0]);
const states = [...document.querySelectorAll(".lifecycle [data-state]")];
const arrows = [...document.querySelectorAll(".lifecycle [data-moves], .lifecycle [data-move]")];
let shown = marked.length; // so many of them are not ahead
let here = null;

function showTranscript(seq, follow) {
  const upTo = lastUpTo(marked, seq, (one) => one[0]) + 1;
  for (let index = shown; index < upTo; index++) marked[index][1].classList.remove("ahead");
  for (let index = upTo; index < shown; index++) marked[index][1].classList.add("ahead");
  shown = upTo;
  if (here) here.classList.remove("here");
  here = upTo && at < last ? marked[upTo - 1][1] : null;
  if (here) here.classList.add("here");
  const seen = here || (upTo ? marked[upTo - 1][1] : null);
  if (follow && seen) reveal(seen);
}

// Scroll to an element that is not well in sight; twice, as turns that were never seen have a guessed height.
function reveal(element) {
  const { top, bottom } = element.getBoundingClientRect();
  if (top > 0.22 * innerHeight && bottom < 0.8 * innerHeight) return;
  element.scrollIntoView({ block: "center" });
  requestAnimationFrame(() => element.scrollIntoView({ block: "center" }));
}

function showState(seq) {
  const index = lastUpTo(data.states, seq, (one) => one[0]);
  const [, state, key] = index < 0 ? [0, "idle", null] : data.states[index];
  for (const element of states) element.classList.toggle("now", element.dataset.state === state);
  for (const element of arrows)
    element.classList.toggle("now", key !== null && (element.dataset.moves || element.dataset.move).split(" ").includes(key));
  return state;
}

function showWhere(seq, state) {
  const [time, type] = data.events[at];
  const clock = new Date(data.start + time);
  const told = Number.isNaN(clock.getTime()) ? "" : clock.toISOString().slice(11, 23);
  const where = $("where");
  where.replaceChildren(
    make("b", "", state), ` · #${seq} of ${data.first + last} · +${duration(time)} · ${told} · ${data.types[type]} `,
    make("span", "", data.summaries[seq] || ""),
  );
  $("at").setAttribute("aria-valuetext", `event ${seq}, ${data.types[type]}, ${state}`);
}

// Go to an event, counted from 0.
function go(place, follow = true) {
  if (last < 0) return;
  at = Math.max(0, Math.min(last, place));
  const seq = data.first + at;
  $("at").value = String(at);
  showTranscript(seq, follow);
  showWhere(seq, showState(seq));
  showWaterfall(seq);
}

// --- time that passes by itself

let timer = null;

function play() {
  if (timer !== null) return pause();
  if (at >= last) go(0);
  $("play").textContent = "❚❚";
  const next = () => {
    if (at >= last) return pause();
    const wait = data.events[at + 1][0] - data.events[at][0];
    timer = setTimeout(() => { go(at + 1); next(); }, Math.max(25, Math.min(900, wait)));
  };
  timer = 0;
  next();
}

function pause() {
  clearTimeout(timer);
  timer = null;
  $("play").textContent = "▶";
}

function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}
