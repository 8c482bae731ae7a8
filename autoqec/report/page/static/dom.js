"use strict";
// Elements are made by name and texts are set as text: no string of a run is ever parsed as markup.
const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}
const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const power = (n) => "10" + String(n).split("").map((c) => SUPER[c]).join("");

function told(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return Math.abs(value) < 1e4 ? String(value) : value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(4)));
  return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
}
const ratio = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const ratios = (low, high) => ratio(low) + " .. " + (high === null || high === undefined ? "∞" : ratio(high));
const interval = (low, high) => (low === null || low === undefined ? "" : told(low) + " .. " + (high === null || high === undefined ? "∞" : told(high)));

function csvOf(table) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [table.columns.map((column) => column.heading), ...table.rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
function save(name, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function plainTable(caption, columns, rows) {
  const numeric = columns.map((_, i) => rows.length > 0 && rows.every((row) => row[i] === null || row[i] === undefined || typeof row[i] === "number"));
  return h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((_, i) => h("td", { class: numeric[i] ? "number" : null }, told(row[i])))))));
}
const scroller = (label, inside, wide) => h("div", { class: wide ? "scroll wide" : "scroll", tabindex: 0, role: "region", "aria-label": label }, inside);

function tableTools(name, table) {
  const holder = h("div");
  const details = h("details", { ontoggle: () => {
    if (details.open && !holder.firstChild) holder.append(scroller("table of " + table.title, plainTable(table.title, table.columns.map((c) => c.heading), table.rows)));
  } }, h("summary", {}, "Table (" + table.rows.length + " rows)"), holder);
  return [h("div", { class: "tools" }, h("button", { type: "button", onclick: () => save(name + ".csv", csvOf(table)) }, "CSV of " + table.kind)), details];
}

function theme() {
  const root = document.documentElement;
  let kept = null;
  try { kept = localStorage.getItem("autoqec-theme"); } catch { /* a file that may keep nothing */ }
  const dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "dark" : "light";
  const button = h("button", { type: "button", id: "theme", onclick: () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("autoqec-theme", root.dataset.theme); } catch { /* see above */ }
    say();
  } });
  const say = () => { button.textContent = root.dataset.theme === "dark" ? "Light theme" : "Dark theme"; };
  say();
  return button;
}

const records = (table) => table.rows.map((row) => Object.fromEntries(table.columns.map((column, i) => [column.key, row[i]])));

// Asks for the data anew when the server says that they changed, and whenever it has come back: what happened in between was not told.
// shown: the data that the page has by now.
function follow(live, shown, show) {
  let seen = JSON.stringify(shown);
  const ask = async () => {
    const answer = await fetch(live.data).catch(() => null);
    if (!answer || !answer.ok) { setTimeout(look, 2000); return; }
    const found = await answer.json(), text = JSON.stringify(found);
    if (text === seen) return;
    seen = text;
    show(found);
  };
  let last = Promise.resolve();
  const look = () => { last = last.then(ask); };  // one after the other: an older answer never comes after a newer one
  const events = new EventSource(live.events);
  events.addEventListener("hello", look);
  events.addEventListener("changed", look);
}
