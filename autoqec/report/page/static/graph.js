// The fork graph: one line per round, indented by its generation; edges lead from parents to children.
const NODE_SHAPES = { baseline: "square", verified: "circle", candidate: "circle", suspicious: "triangle", failed: "cross", conflict: "cross", orphan: "diamond" };
const NODE_LOOKS = { candidate: "hollow", orphan: "hollow" };
const NODE_WORDS = { verified: "verified", candidate: "not verified", suspicious: "suspicious", failed: "failed", conflict: "parents that could not be merged", orphan: "branch without a round" };

function forkGraph(graph) {
  const row = 26, deepest = Math.max(0, ...graph.nodes.map((node) => node.depth)), step = Math.min(22, 260 / (deepest + 1));
  const at = graph.nodes.map((node, i) => [14 + node.depth * step, 16 + i * row]);
  const longest = Math.max(...graph.nodes.map((node) => node.label.length + node.note.length + 24));
  const width = 40 + deepest * step + longest * 7, height = 16 + graph.nodes.length * row;
  const svg = s("svg", { width, height, role: "group", "aria-label": "Fork graph: which round came from which" });
  const parents = new Map();
  for (const [from, to] of graph.edges) {
    const [x, y] = at[from], [u, v] = at[to], second = parents.has(to);
    parents.set(to, true);
    const bend = Math.min(x, u) - (u > x ? 0 : 8);
    svg.append(s("g", { class: second ? "c3" : "cx" }, s("path", { class: "line" + (second ? " dashed" : ""), d: `M${x} ${y}L${u > x ? x : bend} ${y + (u > x ? row * 0.5 : 0)}V${v - row * 0.4}L${u} ${v}` })));
  }
  graph.nodes.forEach((node, i) => {
    const [x, y] = at[i], words = (node.round === null ? "" : "round " + node.round + " · ") + node.label + (node.note ? " · " + node.note : "");
    const inside = [s("rect", { x: x - 12, y: y - 12, width: longest * 7, height: 24, fill: "transparent" }), s("g", { class: node.kind }, mark(NODE_SHAPES[node.kind], x, y, 6, NODE_LOOKS[node.kind])),
      s("text", { x: x + 14, y: y + 4 }, words)];
    const label = words + ", " + (NODE_WORDS[node.kind] || "the start of all") + (node.parents.length ? ", from " + node.parents.join(" and ") : "");
    svg.append(node.round === null ? s("g", { role: "img", "aria-label": label }, inside) : s("a", { href: "#round-" + node.round, class: "node-link", "aria-label": label }, inside));
  });
  const kinds = [...new Set(graph.nodes.map((node) => node.kind))].filter((kind) => NODE_WORDS[kind]);
  const composed = graph.nodes.some((node) => node.parents.length > 1) ? [["further parent of a composed round", "line", "c3", "dashed"]] : [];
  const table = { kind: "forks", title: "Fork graph", columns: ["round", "branch", "what became of it", "note", "parents"].map((heading) => ({ heading })),
    rows: graph.nodes.slice(1).map((node) => [node.round, node.id, NODE_WORDS[node.kind] || node.kind, node.note, node.parents.join(" + ")]) };
  return h("figure", { id: "figure-forks" }, h("figcaption", {}, h("h3", {}, "Fork graph"), h("p", { class: "soft" }, "Which round came from which, from top to bottom. Follow a round to its page.")),
    scroller("fork graph", svg), legend([...kinds.map((kind) => [NODE_WORDS[kind], NODE_SHAPES[kind], kind, NODE_LOOKS[kind]]), ...composed]), tableTools("forks", table));
}
