// Axes, marks and tips of figures. A figure is drawn for the width that it has, and anew when that changes.
function scale(values, log, from, to) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!values.length) [low, high] = log ? [1, 10] : [0, 1];
  if (log) {
    [low, high] = [low / 1.35, high * 1.35];
    if (high < 10 * low) { const middle = Math.sqrt(low * high); [low, high] = [middle / Math.sqrt(10), middle * Math.sqrt(10)]; }
    const at = (value) => from + (to - from) * Math.log(value / low) / Math.log(high / low);
    return { at, low, high, ticks: logTicks(low, high) };
  }
  const spare = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  [low, high] = [low - spare, high + spare];
  return { at: (value) => from + (to - from) * (value - low) / (high - low), low, high, ticks: linearTicks(low, high) };
}
function logTicks(low, high) {
  const decades = Math.log10(high / low), ticks = [], step = Math.ceil(decades / 7);
  for (let n = Math.floor(Math.log10(low)); n <= Math.ceil(Math.log10(high)); n += 1) {
    for (const lead of decades < 1.6 ? [1, 2, 5] : [1]) {
      const value = lead * 10 ** n;
      if (value >= low && value <= high && (lead > 1 || n % step === 0)) ticks.push([value, lead === 1 ? power(n) : lead + "·" + power(n)]);
    }
  }
  return ticks;
}
function linearTicks(low, high) {
  const raw = (high - low) / 6, size = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((k) => k * size).find((k) => k >= raw);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high; n += 1) ticks.push([n * step, told(Number((n * step).toPrecision(6)))]);
  return ticks;
}

const SHAPES = {
  circle: (x, y, r) => s("circle", { cx: x, cy: y, r }),
  square: (x, y, r) => s("rect", { x: x - r * 0.9, y: y - r * 0.9, width: r * 1.8, height: r * 1.8 }),
  diamond: (x, y, r) => s("path", { d: `M${x} ${y - r * 1.25}L${x + r * 1.25} ${y}L${x} ${y + r * 1.25}L${x - r * 1.25} ${y}Z` }),
  triangle: (x, y, r) => s("path", { d: `M${x} ${y - r * 1.2}L${x + r * 1.15} ${y + r * 0.9}L${x - r * 1.15} ${y + r * 0.9}Z` }),
  star: (x, y, r) => s("path", { d: Array.from({ length: 10 }, (_, i) => {
    const a = Math.PI * (i / 5 - 0.5), k = i % 2 ? r * 0.65 : r * 1.5;
    return (i ? "L" : "M") + (x + k * Math.cos(a)).toFixed(1) + " " + (y + k * Math.sin(a)).toFixed(1);
  }).join("") + "Z" }),
  cross: (x, y, r) => s("path", { d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}` }),
  down: (x, y, r) => s("path", { d: `M${x - r} ${y}H${x + r}M${x} ${y}V${y + r * 2.6}M${x - r * 0.7} ${y + r * 1.7}L${x} ${y + r * 2.6}L${x + r * 0.7} ${y + r * 1.7}` }),
};
const SHAPE_NAMES = ["circle", "square", "diamond", "triangle"];
const colour = (n) => (n === "x" ? "cx" : "c" + (n % 7));

function mark(shape, x, y, r, look) {
  const made = SHAPES[shape](x, y, r);
  made.setAttribute("class", "mark " + (look || ""));
  return made;
}
// A point with its tip: for the mouse, and by the arrow keys once the figure has the focus.
function point(plot, words, className, ...marks) {
  const node = s("g", { class: "point " + className, tabindex: -1, role: "img", "aria-label": words.replaceAll("\n", ", ") }, ...marks);
  const show = () => plot.tip(words, node), hide = () => plot.tip(null);
  for (const [name, what] of [["mouseenter", show], ["focus", show], ["mouseleave", hide], ["blur", hide]]) node.addEventListener(name, what);
  return node;
}
function legend(items) {
  return h("ul", { class: "legend" }, items.map(([words, shape, className, look]) => h("li", {},
    s("svg", { width: 18, height: 14, "aria-hidden": "true" }, s("g", { class: className },
      shape === "line" ? s("path", { class: "line " + (look || ""), d: "M1 7H17" }) : mark(shape, 9, shape === "down" ? 3 : 7, 4.5, look))), words)));
}

// holder: gets the drawing. size: (width) => height. draw: (plot) fills it; plot has svg, width, height, frame(), tip().
function chart(label, size, draw) {
  const holder = h("div", { class: "plot" });
  let drawn = 0;
  const redraw = () => {
    const width = Math.max(280, Math.min(holder.clientWidth || 480, 900));
    if (Math.abs(width - drawn) < 2) return;
    drawn = width;
    const height = size(width);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, "aria-label": label + ". Arrow keys go from point to point." });
    const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
    const plot = { svg, width, height, tip: (words, node) => {
      tip.hidden = words === null;
      if (words === null) return;
      tip.textContent = words;
      const at = node.getBoundingClientRect(), base = holder.getBoundingClientRect();
      const left = Math.max(0, Math.min(at.left - base.left + at.width / 2 - tip.offsetWidth / 2, base.width - tip.offsetWidth));
      const above = at.top - base.top - tip.offsetHeight - 8;
      tip.style.left = left + "px";
      tip.style.top = (above < 0 ? at.bottom - base.top + 8 : above) + "px";
    } };
    draw(plot);
    svg.addEventListener("keydown", (event) => {
      const points = [...svg.querySelectorAll(".point")], here = points.indexOf(document.activeElement);
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step || !points.length) return;
      event.preventDefault();
      points[here < 0 ? (step > 0 ? 0 : points.length - 1) : (here + step + points.length) % points.length].focus({ preventScroll: true });
    });
    holder.replaceChildren(svg, tip);
  };
  new ResizeObserver(redraw).observe(holder);
  return holder;
}
function axes(plot, x, y, xLabel, yLabel) {
  const { svg } = plot, [left, right, top, bottom] = plot.edges;
  for (const [value, text] of x.ticks) {
    svg.append(s("path", { class: "grid", d: `M${x.at(value)} ${top}V${bottom}` }), s("text", { class: "soft-text", x: x.at(value), y: bottom + 16, "text-anchor": "middle" }, text));
  }
  for (const [value, text] of y ? y.ticks : []) {
    svg.append(s("path", { class: "grid", d: `M${left} ${y.at(value)}H${right}` }), s("text", { class: "soft-text", x: left - 6, y: y.at(value) + 4, "text-anchor": "end" }, text));
  }
  svg.append(s("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}`, fill: "none" }));
  svg.append(s("text", { class: "soft-text", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, xLabel));
  if (yLabel) svg.append(s("text", { class: "soft-text", x: 12, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + bottom) / 2})` }, yLabel));
}
