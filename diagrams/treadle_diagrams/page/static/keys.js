// Keys, clicks, and the beginning.

function turnFrom(step) {
  const seq = data.first + at;
  const index = lastUpTo(turns, seq, (span) => span[2][0]);
  const start = index >= 0 && turns[index][2][0] === seq;
  const next = step > 0 ? index + 1 : start ? index - 1 : index;
  if (next >= turns.length) return go(last);
  go(next < 0 ? 0 : turns[next][2][0] - data.first);
}

const KEYS = {
  ArrowLeft: (event) => (event.shiftKey ? turnFrom(-1) : go(at - 1)),
  ArrowRight: (event) => (event.shiftKey ? turnFrom(1) : go(at + 1)),
  Home: () => go(0),
  End: () => go(last),
  " ": play,
  t: turnTheme,
  "?": () => $("keys").showModal(),
  "/": () => $("find").select(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (event.target === $("find")) {
    if (event.key === "Enter" && hits.length) show(hit + (event.shiftKey ? -1 : 1));
    else if (event.key === "Escape") { $("find").value = ""; search(""); $("find").blur(); }
    else return;
  } else if (event.target.closest("button, summary") && event.key === " ") {
    return;
  } else {
    const act = KEYS[event.key];
    if (!act) return;
    if (event.key !== " ") pause();
    act(event);
  }
  event.preventDefault();
});

$("at").addEventListener("input", () => { pause(); go(Number($("at").value)); });
$("play").addEventListener("click", play);
$("theme").addEventListener("click", turnTheme);
$("help").addEventListener("click", () => $("keys").showModal());
let typing = 0;
$("find").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => search($("find").value), 60); });

document.querySelector(".transcript").addEventListener("click", (event) => {
  if (event.target.closest("summary, a") || getSelection().toString()) return;
  const entry = event.target.closest("[data-seq]");
  if (entry) go(Number(entry.dataset.seq) - data.first, false);
});

addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not(.long)")) fold.open = true;
});

function fromAddress() {
  const found = /^#e(\d+)/.exec(location.hash);
  if (found) go(Number(found[1]) - data.first);
  return Boolean(found);
}

history.scrollRestoration = "manual";
addEventListener("hashchange", fromAddress);
addEventListener("load", () => setTimeout(() => { if (here) reveal(here); })); // the browser has jumped by then
if (!fromAddress()) go(last, false);
