// The runs of a folder: searched, sorted, and chosen for a comparison.
let data = JSON.parse(document.getElementById("data").textContent);
const live = data.live, state = { by: "created_at", down: true, words: "", choice: "" }, picked = new Set();
const content = h("main", { id: "content" }), button = h("button", { type: "button", id: "compare", disabled: true, onclick: () => { location.href = live.compare + "?" + [...picked].map((id) => "run=" + encodeURIComponent(id)).join("&"); } }, "Compare");
const pick = (row) => h("input", { type: "checkbox", "aria-label": "compare " + row.run_id, checked: picked.has(row.run_id), onchange: (event) => {
  if (event.target.checked) picked.add(row.run_id); else picked.delete(row.run_id);
  button.disabled = picked.size < 2;
} });
const COLUMNS = [
  { key: "run_id", heading: "run", value: (row) => row.run_id, cell: (row) => (row.state === "unreadable" ? row.run_id : h("a", { href: live.run + encodeURIComponent(row.run_id) }, row.run_id)) },
  { key: "env", heading: "environment", value: (row) => row.env },
  { key: "state", heading: "state", value: (row) => row.state, cell: (row) => [row.state, row.reason ? h("div", { class: "soft" }, row.reason) : null] },
  { key: "rounds", heading: "rounds", number: true, value: (row) => row.rounds, cell: (row) => told(row.rounds) + (row.rounds_planned ? " of " + row.rounds_planned : "") },
  { key: "verified", heading: "verified", number: true, value: (row) => row.verified },
  { key: "best_ratio", heading: "best ratio", number: true, value: (row) => row.best_ratio },
  { key: "created_at", heading: "started", value: (row) => row.created_at, cell: (row) => (row.created_at || "–").slice(0, 16).replace("T", " ") },
  { key: "pick", heading: "compare", value: () => "", cell: pick },
];
function render() {
  content.replaceChildren(h("h2", {}, "Runs"), ...(data.runs.length ? sortable("Runs, newest first", COLUMNS, data.runs, state, [...new Set(data.runs.map((row) => row.state))].sort(), (row) => row.state) : [h("p", {}, "There is no run here yet.")]), h("div", { class: "tools" }, button, h("span", { class: "soft" }, "Choose two runs or more.")));
}
document.body.append(h("header", { class: "top" }, h("h1", {}, "AutoQEC: " + data.folder), theme()), content);
render();
follow(live, { runs: data.runs }, (found) => {
  data = { ...data, ...found };
  const kept = document.activeElement && document.activeElement.id;
  render();
  const again = kept && document.getElementById(kept);
  if (again) again.focus();
});
