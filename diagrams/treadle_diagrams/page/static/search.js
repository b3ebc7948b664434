// Search through the transcript: entries that hold the text, one after the other.

const entries = [...document.querySelectorAll(".transcript article, .transcript .line, .transcript h2, .transcript .end")];
let texts = null; // in small letters, made at the first search
let hits = [];
let hit = -1;

function search(words) {
  texts ||= entries.map((entry) => entry.textContent.toLowerCase());
  const wanted = words.trim().toLowerCase();
  hits = [];
  hit = -1;
  if (wanted) texts.forEach((text, index) => { if (text.includes(wanted)) hits.push(index); });
  if (hits.length) {
    const from = at < last ? hits.findIndex((index) => Number(entries[index].dataset.seq) >= data.first + at) : 0;
    show(Math.max(0, from));
  } else {
    mark(null, "");
    $("found").textContent = wanted ? "none" : "";
  }
}

function show(index) {
  hit = (index + hits.length) % hits.length;
  const entry = entries[hits[hit]];
  const wanted = $("find").value.trim().toLowerCase();
  for (const fold of entry.querySelectorAll("details"))
    if (fold.textContent.toLowerCase().includes(wanted)) fold.open = true;
  entry.scrollIntoView({ block: "center" });
  mark(entry, wanted);
  $("found").textContent = `${hit + 1} of ${hits.length}`;
}

function mark(entry, wanted) {
  for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
  if (typeof CSS === "undefined" || !CSS.highlights) {
    if (entry) entry.classList.add("hit");
    return;
  }
  CSS.highlights.clear();
  if (!entry) return;
  const ranges = [];
  const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && ranges.length < 500) {
    const text = walker.currentNode.data.toLowerCase();
    for (let from = text.indexOf(wanted); from >= 0 && ranges.length < 500; from = text.indexOf(wanted, from + wanted.length)) {
      const range = new Range();
      range.setStart(walker.currentNode, from);
      range.setEnd(walker.currentNode, Math.min(walker.currentNode.length, from + wanted.length));
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
