// The page of one run. `data.live` is there when a server sends it: then the page follows the run.
let data = JSON.parse(document.getElementById("data").textContent);
const live = data.live;
const state = { by: "round", down: false, words: "", choice: "" };
const body = document.body, content = h("main", { id: "content", tabindex: -1 });

function headlineOf(head) {
  if (!head) return h("p", {}, "No round is verified yet.");
  const tile = (one) => h("div", { class: "tile" }, h("div", { class: "label" }, one.label),
    h("div", { class: "value" }, one.ratio === undefined ? told(one.value) : one.ratio === null ? "–" : ratio(one.ratio) + "×"),
    one.interval ? h("div", {}, ratios(...one.interval)) : null, h("div", { class: "soft" }, one.note));
  return [h("p", {}, h("a", { href: "#round-" + head.round }, "Round " + head.round), " is the best verified round: ", head.sentence + "."),
    h("div", { class: "tiles" }, head.tiles.filter(Boolean).map(tile)),
    h("p", { class: "soft" }, "Ratios are the other decoder's LER over that of the predecoder, with intervals: above 1 is better. ",
      head.source === "estimate" ? "They are of " + told(head.shots) + " shots that selected nothing." : "They are of the test, which was stopped when its gain was large.")];
}
function progressOf(now) {
  if (!now) return null;
  const flights = now.in_flight.map((one) => [h("p", {}, "Round " + one.round + " (" + one.stage + "): " + one.hypothesis),
    one.last ? h("p", { class: "soft" }, one.last) : null, one.loss.length > 1 ? drawLoss(one.loss, "round " + one.round) : null]);
  return h("section", { id: "now" }, h("h2", {}, "Now"), h("p", { role: "status" }, "The run is " + now.state + ": " + now.rounds + (now.planned ? " of " + now.planned : "") + " rounds."),
    now.planned ? h("progress", { max: now.planned, value: Math.min(now.rounds, now.planned), "aria-label": "rounds done" }) : null,
    h("p", { class: "soft" }, now.budget), flights, now.log ? h("details", { open: true }, h("summary", {}, "End of the log"), code(now.log)) : null);
}
const COLUMNS = [
  { key: "round", heading: "round", number: true, value: (row) => row.round, cell: (row) => h("a", { href: "#round-" + row.round }, row.round) },
  { key: "verdict", heading: "verdict", value: (row) => row.verdict, cell: (row) => [badge(row.verdict), row.on_front ? " ★" : ""] },
  { key: "hypothesis", heading: "hypothesis", wide: true, value: (row) => row.hypothesis, cell: (row) => row.hypothesis.length > 160 ? row.hypothesis.slice(0, 157) + "..." : row.hypothesis || "–" },
  { key: "gain", heading: "gain in LER", number: true, value: (row) => row.gain },
  { key: "ratio", heading: "ratio", number: true, value: (row) => row.ratio },
  { key: "flops", heading: "FLOPs", number: true, value: (row) => row.flops },
  { key: "params", heading: "parameters", number: true, value: (row) => row.params },
  { key: "seconds", heading: "seconds", number: true, value: (row) => row.seconds },
];
function roundsTable() {
  const table = { kind: "rounds", title: "Rounds", columns: COLUMNS, rows: data.rounds.map((row) => COLUMNS.map((column) => column.value(row))) };
  return h("section", { id: "rounds" }, h("h2", {}, "Rounds"), sortable("Rounds of " + data.run_id + "; ★: on the front", COLUMNS, data.rounds, state, [...new Set(data.rounds.map((row) => row.verdict))].sort(), (row) => row.verdict),
    h("div", { class: "tools" }, h("button", { type: "button", onclick: () => save(data.run_id + "-rounds.csv", csvOf(table)) }, "CSV of rounds")));
}
function chosen() {
  const found = /^#round-(\d+)$/.exec(location.hash);
  return found ? data.rounds.findIndex((round) => round.round === Number(found[1])) : -1;
}
function showRound(move) {
  const section = document.getElementById("one");
  if (!section || !data.rounds.length) return;
  let n = chosen();
  if (n < 0) n = Math.max(0, data.rounds.findIndex((round) => round.round === (data.headline ? data.headline.round : data.rounds.at(-1).round)));
  const round = data.rounds[n], to = (other) => () => { location.hash = "#round-" + data.rounds[other].round; };
  const title = h("h2", { id: "round-title", tabindex: -1 }, "Round " + round.round);
  section.replaceChildren(title, h("div", { class: "tools" },
    h("button", { type: "button", id: "before", disabled: n === 0, onclick: to(n - 1) }, "← Round before"), h("button", { type: "button", id: "after", disabled: n === data.rounds.length - 1, onclick: to(n + 1) }, "Next round →")), ...roundPage(round, data.run_id).flat(Infinity).filter(Boolean));
  if (move) { section.scrollIntoView(); title.focus({ preventScroll: true }); }
}
function render() {
  const plan = data.plan;
  const facts = [data.code, plan ? plan.rounds + " rounds planned, proposed by " + plan.proposer + ", profile " + plan.profile : null,
    plan ? "took " + told(plan.spent_minutes) + " minutes" + (plan.spent_usd === null ? "" : ", $" + told(plan.spent_usd)) : null, data.created_at ? "started " + data.created_at.slice(0, 16).replace("T", " ") + " UTC" : null].filter(Boolean);
  const has = (kind) => data.figures[kind];
  const links = [["#headline", "Headline"], ...(Object.keys(data.figures).length ? [["#figures", "Figures"]] : []), ["#forks", "Fork graph"], ["#rounds", "Rounds"], ["#one", "One round"]];
  content.replaceChildren(...[
    h("p", { class: "soft" }, facts.join("; ") + "."), h("nav", { class: "jump", "aria-label": "Parts of this page" }, links.map(([to, words]) => h("a", { href: to }, words))),
    progressOf(data.progress),
    h("section", { id: "headline" }, h("h2", {}, "Headline"), headlineOf(data.headline)),
    Object.keys(data.figures).length ? h("section", { id: "figures" }, h("h2", {}, "Figures"), h("div", { class: "figures" }, Object.keys(DRAW).filter(has).map((kind) => figure(data.figures[kind], data.run_id)))) : null,
    h("section", { id: "forks" }, h("h2", {}, "Where rounds come from"), forkGraph(data.graph)),
    roundsTable(), h("section", { id: "one" }),
    data.gaps.length ? h("section", { id: "gaps" }, h("h2", {}, "What could not be read"), h("ul", {}, data.gaps.map((gap) => h("li", {}, gap)))) : null,
    h("footer", {}, "Made by autoqec " + data.version + " from the folder of run " + data.run_id + ". autoqec plot makes these figures for paper.")].filter(Boolean));
  showRound(false);
}
body.append(h("a", { class: "skip", href: "#content" }, "Skip to content"),
  h("header", { class: "top" }, h("div", {}, h("h1", {}, data.run_id + ": " + data.heading), live ? h("a", { href: live.up }, "All runs") : null), theme()), content);
render();
if (chosen() >= 0) showRound(true);
addEventListener("hashchange", () => { if (chosen() >= 0) showRound(true); });

if (live) follow(live, { ...data, live: undefined }, (found) => {
  data = found;
  const kept = document.activeElement && document.activeElement.id, y = scrollY;
  render();
  scrollTo({ top: y, behavior: "instant" });
  const again = kept && document.getElementById(kept);
  if (again) again.focus({ preventScroll: true });
});
