// Several runs in one set of figures.
const data = JSON.parse(document.getElementById("data").textContent);
document.body.append(h("header", { class: "top" }, h("div", {}, h("h1", {}, "Comparison of " + data.runs.join(", ")), h("a", { href: data.live.up }, "All runs")), theme()),
  h("main", { id: "content" }, data.note ? h("p", { class: "warn" }, data.note) : null, h("h2", {}, "Best verified rounds"),
    scroller("best rounds", plainTable("The best verified round of each run", ["run", "environment", "round", "what was found"], data.best)),
    h("h2", {}, "Figures"), h("div", { class: "figures" }, Object.keys(DRAW).filter((kind) => data.figures[kind]).map((kind) => figure(data.figures[kind], "comparison")))));
