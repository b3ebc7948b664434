// What took time in the turn that the page stands in, and what waited in the inbox.

const turns = data.spans.filter((span) => span[0] === "turn");
const spansOf = new Map();
for (const span of data.spans) {
  if (!spansOf.has(span[4])) spansOf.set(span[4], []);
  spansOf.get(span[4]).push(span);
}
let drawn = null; // the turn whose waterfall is drawn
let lanes = null;

function showWaterfall(seq) {
  const index = Math.max(0, lastUpTo(turns, seq, (span) => span[2][0]));
  const turn = turns[index];
  if (turn === undefined) return;
  if (drawn !== turn) drawWaterfall(turn);
  lanes.stand(data.events[at][0]);
}

function drawWaterfall(turn) {
  drawn = turn;
  lanes = new Lanes(turn, spansOf.get(turn[4]) || [], data.letters, data.events[last][0], (to) => go(to - data.first));
  $("of-turn").replaceChildren(...lanes.caption);
  $("waterfall").replaceChildren(...lanes.body);
}
