// A table that sorts by the buttons of its heading and shows the rows that a text and a choice allow.
// columns: {key, heading, text(row), html(row)}; state: {by, down, words, choice}, kept by the caller.
function sortable(caption, columns, rows, state, choices, choiceOf) {
  const body = h("tbody"), count = h("span", { class: "soft", role: "status" }), headings = new Map();
  const searched = (row) => columns.map((column) => told(column.value(row))).join(" ").toLowerCase();
  const fill = () => {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => (!state.choice || choiceOf(row) === state.choice) && words.every((word) => searched(row).includes(word)));
    const column = columns.find((one) => one.key === state.by) || columns[0];
    shown.sort((a, b) => {
      const [u, v] = [column.value(a), column.value(b)];
      if (u === null || u === undefined || v === null || v === undefined) return (u === null || u === undefined) - (v === null || v === undefined);
      return (state.down ? -1 : 1) * (typeof u === "number" && typeof v === "number" ? u - v : String(u).localeCompare(String(v)));
    });
    body.replaceChildren(...shown.map((row) => h("tr", {}, columns.map((one) => h("td", { class: one.number ? "number" : one.wide ? "text" : null }, one.cell ? one.cell(row) : told(one.value(row)))))));
    count.textContent = shown.length + " of " + rows.length + " shown";
    for (const [key, th] of headings) th.setAttribute("aria-sort", key === column.key ? (state.down ? "descending" : "ascending") : "none");
  };
  const heading = (column) => {
    const arrow = h("span", { "aria-hidden": "true" }, " ↕");
    const th = h("th", { scope: "col" }, h("button", { type: "button", id: "sort-" + column.key, onclick: () => {
      state.down = state.by === column.key ? !state.down : Boolean(column.number);
      state.by = column.key;
      fill();
    } }, column.heading, arrow));
    headings.set(column.key, th);
    return th;
  };
  const table = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, columns.map(heading))), body);
  const input = h("input", { type: "search", id: "filter", value: state.words, oninput: () => { state.words = input.value; fill(); } });
  const select = h("select", { id: "choice", onchange: () => { state.choice = select.value; fill(); } }, h("option", { value: "" }, "all"), choices.map((name) => h("option", { value: name, selected: name === state.choice }, name)));
  fill();
  return [h("div", { class: "tools" }, h("label", {}, "Filter ", input), choices.length ? h("label", {}, "Show ", select) : null, count), scroller(caption, table, true)];
}
