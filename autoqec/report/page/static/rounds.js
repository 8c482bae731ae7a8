// One round in full.
const verdictClass = (verdict) => ({ VERIFIED: "verified", SUSPICIOUS: "suspicious", FAILED: "failed", candidate: "candidate", ignore: "candidate" }[verdict] || "failed");
const badge = (verdict) => h("span", { class: "badge " + verdictClass(verdict) }, verdict);
const code = (text) => h("pre", { tabindex: 0, "aria-label": "commands or text" }, text);
const titled = (title, ...inside) => h("div", {}, h("h3", {}, title), ...inside);

function roundPage(round, runId) {
  const name = "round " + round.round, file = runId + "-round-" + round.round;
  const facts = [["branch", round.branch], ["commit", round.commit], ["parents", round.parents.join(" + ")], ["kind", round.family],
    ["gain in LER (" + round.source + ")", round.gain === null ? null : told(round.gain) + " (" + interval(round.low, round.high) + ")"], ["LER of the plain backend over its own", round.ratio],
    ["FLOPs per syndrome", round.flops], ["parameters", round.params], ["seconds", round.seconds], ["dollars", round.usd]].filter((fact) => fact[1] !== null && fact[1] !== "");
  const table = (kind, title, columns, rows) => ({ kind, title, columns: columns.map((heading) => ({ heading })), rows });
  const perP = table("results", "Results of " + name + " by p", ["p", "shots", "compared with", "its LER", "LER of the round", "difference", "low", "high", "shots of"], round.per_p);
  const parts = [titled("In figures", h("div", { class: "facts" }, plainTable("Round " + round.round, ["what", "value"], facts)))];
  if (round.changes.length) parts.push(titled("Differs from its parent in", scroller("changes", plainTable("Config of the parent and of this round", ["parent", "option", "before", "after"], round.changes))));
  else if (round.config.length) parts.push(titled("Config", scroller("config", plainTable("All options", ["option", "value"], round.config))));
  if (round.loss.length > 1) {
    const losses = table("loss", "Training loss of " + name, ["step", "training loss"], round.loss);
    parts.push(h("figure", {}, h("figcaption", {}, h("h3", {}, "Training loss")), drawLoss(round.loss, name), tableTools(file + "-loss", losses)));
  }
  if (round.per_p.length) parts.push(titled("Results by p", scroller("results by p", plainTable(perP.title, perP.columns.map((c) => c.heading), perP.rows)), h("div", { class: "tools" }, h("button", { type: "button", onclick: () => save(file + "-results.csv", csvOf(perP)) }, "CSV of results"))));
  if (round.times) parts.push(titled("Time", plainTable("Time of " + name, ["what", "us"], Object.entries(round.times).filter((pair) => pair[1] !== null))));
  if (round.guards.length) parts.push(titled("Guards", scroller("guards", plainTable("What the verifier checked", ["guard", "result", "if not passed", "what it says"], round.guards))));
  if (round.changes.length && round.config.length) parts.push(h("details", {}, h("summary", {}, "Whole config"), scroller("config", plainTable("All options", ["option", "value"], round.config))));
  parts.push(titled("Do it again", code(round.commands.join("\n"))));
  if (round.card) parts.push(h("details", {}, h("summary", {}, "Model card"), code(round.card)));
  return [h("p", {}, badge(round.verdict), round.on_front ? " on the front: " : " ", round.hypothesis),
    round.reason ? h("p", { class: "warn" }, round.reason) : null, round.not_backed ? h("p", { class: "warn" }, "Not backed by the verifier of this machine: " + round.not_backed) : null,
    round.notes ? h("p", {}, round.notes) : null, round.analysis ? h("p", { class: "soft" }, round.analysis) : null, h("div", { class: "two" }, parts)];
}
