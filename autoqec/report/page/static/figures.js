// One function per figure: from its table to a drawing. The tables are those that `autoqec plot` draws for paper.
const FLOOR = 1e-300;

function drawPareto(rows, title) {
  const points = rows.filter((row) => row.flops !== null), classical = rows.filter((row) => row.flops === null);
  const runs = [...new Set(rows.map((row) => row.run))];
  const look = (row) => (row.kind.startsWith("candidate") ? "hollow" : row.kind.endsWith("dominated") ? "faint" : "");
  const made = chart(title, (width) => Math.min(380, width * 0.75), (plot) => {
    plot.edges = [72, plot.width - 12, 12, plot.height - 44];
    const [left, right, top, bottom] = plot.edges;
    const x = scale(points.map((row) => Math.max(row.flops, 1)), true, left, right);
    const y = scale(rows.flatMap((row) => [row.gain, row.low ?? row.gain, row.high ?? row.gain]).concat(0), false, bottom, top);
    axes(plot, x, y, "mean FLOPs per syndrome", "gain in LER per shot");
    plot.svg.append(s("path", { class: "axis", d: `M${left} ${y.at(0)}H${right}` }));
    for (const row of classical) {
      const words = `${row.name}\nclassical decoder\ngain ${told(row.gain)}`;
      plot.svg.append(s("g", { class: "cx" }, s("path", { class: "bar dotted", d: `M${left} ${y.at(row.gain)}H${right}` })),
        point(plot, words, "cx", mark("star", left + 12, y.at(row.gain), 6)));
      if (classical.every((other) => other === row || Math.abs(y.at(other.gain) - y.at(row.gain)) > 13)) plot.svg.append(s("text", { class: "soft-text", x: left + 24, y: y.at(row.gain) - 4 }, row.name));
    }
    for (const row of points) {
      const at = [x.at(Math.max(row.flops, 1)), y.at(row.gain)], className = colour(runs.indexOf(row.run));
      const words = `${runs.length > 1 ? row.run + ", " : ""}${row.name}\n${row.kind}\ngain ${told(row.gain)} (${interval(row.low, row.high)})\n${told(row.flops)} FLOPs, ${told(row.params)} parameters`;
      const bar = row.low === null ? null : s("path", { class: points.length > 40 && !row.kind.endsWith("front") ? "bar crowded" : "bar", d: `M${at[0]} ${y.at(row.low)}V${y.at(row.high)}` });
      const node = point(plot, words, className, bar, mark("circle", ...at, 3 + 1.1 * String(row.params).length, look(row)));
      node.dataset.round = row.round;
      plot.svg.append(node);
    }
  });
  const kinds = [...new Set(points.map((row) => row.kind))];
  return [made, legend([...kinds.map((kind) => [kind, "circle", "c0", look({ kind })]), ...(classical.length ? [["classical decoder", "star", "cx"]] : []),
    ...(runs.length > 1 ? runs.map((run, i) => [run, "circle", colour(i)]) : [])])];
}

function drawForest(rows, title) {
  const roles = ["the plain backend", "the best classical decoder", "the untrained model"];
  const rounds = [...new Set(rows.map((row) => row.run + "/" + row.round))].slice(-60);
  const shown = rows.filter((row) => rounds.includes(row.run + "/" + row.round) && roles.includes(row.role));
  const several = new Set(rows.map((row) => row.run)).size > 1;
  const made = chart(title, () => 66 + 34 * rounds.length, (plot) => {
    plot.edges = [several ? 130 : 96, plot.width - 12, 10, plot.height - 44];
    const [left, right, top, bottom] = plot.edges;
    const x = scale(shown.flatMap((row) => [row.difference, row.low ?? row.difference, row.high ?? row.difference]).concat(0), false, left, right);
    if (plot.width < 420) x.ticks = x.ticks.filter((_, i) => i % 2 === 0);
    axes(plot, x, null, "LER of the other decoder less its own");
    plot.svg.append(s("path", { class: "axis", d: `M${x.at(0)} ${top}V${bottom}` }));
    const step = (bottom - top) / rounds.length;
    rounds.forEach((id, i) => {
      const first = shown.find((row) => row.run + "/" + row.round === id);
      plot.svg.append(s("text", { x: left - 8, y: top + step * (i + 0.5) - 2, "text-anchor": "end" }, (several ? first.run + " " : "") + first.name),
        s("text", { class: "soft-text", x: left - 8, y: top + step * (i + 0.5) + 12, "text-anchor": "end" }, first.verdict));
    });
    for (const row of shown) {
      const n = roles.indexOf(row.role), y = top + step * (rounds.indexOf(row.run + "/" + row.round) + 0.5) + (n - 1) * 8;
      const words = `${row.name}, ${row.verdict}\nagainst ${row.against}, ${row.role}\n${told(row.difference)} (${interval(row.low, row.high)})\nshots of ${row.source}`;
      const bar = row.low === null ? null : s("path", { class: "bar", d: `M${x.at(row.low)} ${y}H${x.at(row.high)}` });
      plot.svg.append(point(plot, words, colour(n), bar, mark(SHAPE_NAMES[n], x.at(row.difference), y, 3.6, row.source === "validation" ? "hollow" : "")));
    }
  });
  return [rounds.length > 12 ? scroller(title, made) : made, legend(roles.filter((role) => shown.some((row) => row.role === role)).map((role) => ["against " + role, SHAPE_NAMES[roles.indexOf(role)], colour(roles.indexOf(role))]))];
}

function drawLer(rows, title) {
  const runs = [...new Set(rows.map((row) => row.run))], names = [...new Set(rows.map((row) => row.decoder))];
  const dash = (run) => ["", "dashed", "dotted"][runs.indexOf(run) % 3];
  const made = chart(title, (width) => Math.min(400, width * 0.8), (plot) => {
    plot.edges = [62, plot.width - 12, 12, plot.height - 44];
    const [left, right, top, bottom] = plot.edges;
    const x = scale(rows.map((row) => row.p), true, left, right);
    const y = scale(rows.map((row) => (row.is_limit ? row.high : row.ler)), true, bottom, top);
    axes(plot, x, y, "physical error rate p", "logical error rate per shot");
    const clip = (value) => Math.min(bottom, Math.max(top, y.at(Math.max(value, FLOOR))));
    for (const run of runs) for (const [n, name] of names.entries()) {
      const own = rows.filter((row) => row.run === run && row.decoder === name).sort((a, b) => a.p - b.p), seen = own.filter((row) => !row.is_limit);
      const path = (key) => seen.map((row) => `${x.at(row.p)} ${clip(row[key])}`);
      if (seen.length > 1) plot.svg.append(s("g", { class: colour(n) },
        s("path", { class: "band", d: "M" + [...path("high"), ...path("low").reverse()].join("L") + "Z" }), s("path", { class: "line " + dash(run), d: "M" + path("ler").join("L") })));
      for (const row of own) {
        const words = `${name}${runs.length > 1 ? ", " + run : ""}\np = ${told(row.p)}\n${row.is_limit ? "no failure: LER below " + told(row.high) : "LER " + told(row.ler) + " (" + interval(row.low, row.high) + ")"}\n${told(row.shots)} shots of ${row.source}`;
        plot.svg.append(point(plot, words, colour(n), row.is_limit ? mark("down", x.at(row.p), clip(row.high), 5) : mark(SHAPE_NAMES[n % 4], x.at(row.p), clip(row.ler), 4)));
      }
    }
  });
  const limit = rows.some((row) => row.is_limit) ? [["upper limit: no failure seen", "down", "cx"]] : [];
  return [made, legend([...names.map((name, n) => [name, SHAPE_NAMES[n % 4], colour(n)]), ...limit, ...(runs.length > 1 ? runs.map((run) => [run, "line", "cx", dash(run)]) : [])])];
}

function lines(title, series, xLabel, yLabel, log, stepped) {
  return chart(title, (width) => Math.min(320, width * 0.7), (plot) => {
    plot.edges = [72, plot.width - 12, 12, plot.height - 44];
    const [left, right, top, bottom] = plot.edges, all = series.flatMap((one) => one.points);
    const x = scale(all.map((pair) => pair[0]).concat(0), false, left, right), y = scale(all.map((pair) => pair[1]).concat(log ? [] : 0), log, bottom, top);
    if (Math.max(...all.map((pair) => pair[0])) <= 12) x.ticks = x.ticks.filter(([value]) => Number.isInteger(value));
    axes(plot, x, y, xLabel, yLabel);
    for (const one of series) {
      const path = one.points.map((pair, i) => (i && stepped ? `H${x.at(pair[0])}V${y.at(pair[1])}` : `${i ? "L" : "M"}${x.at(pair[0])} ${y.at(pair[1])}`)).join("");
      plot.svg.append(s("g", { class: one.colour }, s("path", { class: "line " + (one.look || ""), d: path })));
      for (const pair of one.marked) plot.svg.append(point(plot, `${one.name}\n${xLabel} ${told(pair[0])}: ${told(pair[1])}`, one.colour, mark("circle", x.at(pair[0]), y.at(pair[1]), 2.5)));
    }
  });
}
function drawHypervolume(rows, title) {
  const runs = [...new Set(rows.map((row) => row.run))], series = [];
  for (const [n, run] of runs.entries()) for (const [key, look, words] of [["verified", "", "verified"], ["validated", "dashed", "on validation shots"]]) {
    const points = rows.filter((row) => row.run === run).map((row) => [row.round, row[key]]);
    const marked = points.filter((pair, i) => i === points.length - 1 || (i && pair[1] > points[i - 1][1]));
    series.push({ name: (runs.length > 1 ? run + ": " : "") + words, colour: colour(n), look, points: [[0, 0], ...points], marked });
  }
  return [lines(title, series, "round", "hypervolume", false, true), legend(series.map((one) => [one.name, "line", one.colour, one.look]))];
}
function drawLoss(points, name) {
  const positive = points.every((pair) => pair[1] > 0);
  const every = Math.max(1, Math.round(points.length / 12));
  return lines("Training loss of " + name, [{ name, colour: "c0", points, marked: points.filter((_, i) => i % every === 0) }], "step", "training loss", positive, false);
}

function drawLatency(rows, title) {
  if (new Set(rows.map((row) => row.run)).size > 1) rows = rows.map((row) => ({ ...row, name: row.run + ", " + row.name }));
  const rounds = rows.filter((row) => row.round !== null).slice(-60), shown = [...rounds, ...rows.filter((row) => row.round === null)];
  const made = chart(title, () => 60 + 22 * shown.length, (plot) => {
    const widest = Math.min(Math.max(...shown.map((row) => row.name.length)) * 7 + 14, plot.width * 0.42);
    plot.edges = [widest, plot.width - 14, 8, plot.height - 44];
    const [left, right, top, bottom] = plot.edges, step = (bottom - top) / shown.length;
    const x = scale(shown.flatMap((row) => [row.us, row.p50 ?? row.us]), true, left, right);
    axes(plot, x, null, "microseconds per shot");
    shown.forEach((row, i) => {
      const y = top + step * (i + 0.5), className = row.round === null ? "cx" : "c0";
      const one = row.p50 === null ? null : s("path", { class: "bar", d: `M${x.at(row.us)} ${y}H${x.at(row.p50)}M${x.at(row.p50)} ${y - 5}V${y + 5}` });
      const words = `${row.name}\n${told(row.us)} us per shot${row.p50 === null ? "" : "\none at a time, " + row.of + ": median " + told(row.p50) + ", 99% " + told(row.p99) + " us"}`;
      plot.svg.append(s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, row.name), point(plot, words, className, one, mark(row.round === null ? "star" : "circle", x.at(row.us), y, row.round === null ? 5 : 4.5)));
    });
  });
  const slow = shown.some((row) => row.p50 !== null) ? [["to the median of one shot at a time", "line", "c0"]] : [];
  return [shown.length > 22 ? scroller(title, made) : made, legend([["predecoder and backend", "circle", "c0"], ...slow, ["classical decoder", "star", "cx"]])];
}

function drawLambda(rows, title) {
  const names = [...new Set(rows.map((row) => row.decoder))], steps = [...new Set(rows.map((row) => row.from_distance + " to " + row.to_distance))];
  const made = chart(title, (width) => Math.min(360, width * 0.75), (plot) => {
    plot.edges = [62, plot.width - 12, 12, plot.height - 44];
    const [left, right, top, bottom] = plot.edges, seen = rows.filter((row) => row.lambda !== null);
    const x = scale(rows.map((row) => row.p), true, left, right), y = scale(seen.map((row) => row.lambda).concat(1), true, bottom, top);
    const clip = (value) => Math.min(bottom, Math.max(top, y.at(Math.max(value, FLOOR))));
    axes(plot, x, y, "physical error rate p", "Lambda per step of 2");
    plot.svg.append(s("path", { class: "axis", d: `M${left} ${y.at(1)}H${right}` }));
    for (const row of seen) {
      const n = names.indexOf(row.decoder), words = `${row.decoder}, d = ${row.from_distance} to ${row.to_distance}\np = ${told(row.p)}\nLambda ${told(row.lambda)} (${interval(row.low, row.high)})`;
      const place = x.at(row.p) + (n - (names.length - 1) / 2) * 7;
      plot.svg.append(point(plot, words, colour(n), s("path", { class: "bar", d: `M${place} ${clip(row.low)}V${row.high === null ? top : clip(row.high)}` }), mark(SHAPE_NAMES[steps.indexOf(row.from_distance + " to " + row.to_distance) % 4], place, clip(row.lambda), 4)));
    }
  });
  return [made, legend([...names.map((name, n) => [name, "line", colour(n)]), ...steps.map((step, n) => ["d = " + step, SHAPE_NAMES[n % 4], "cx"])])];
}

function drawCalibration(rows, title) {
  const key = (row) => (row.run ? row.run + ", " : "") + row.name, names = [...new Set(rows.map(key))], several = new Set(rows.map((row) => row.run)).size > 1;
  const shown = (name) => (several ? name : rows.find((row) => key(row) === name).name);
  const one = (part, of, xLabel, log) => {
    const own = rows.filter((row) => row.part === part);
    return chart(`${title}, ${part}`, (width) => Math.min(340, width * 0.75), (plot) => {
      plot.edges = [62, plot.width - 12, 12, plot.height - 44];
      const [left, right, top, bottom] = plot.edges, x = scale(own.map((row) => row[of]), log, left, right);
      const y = scale(own.map((row) => (row.is_limit ? row.high : row.ler)), true, bottom, top);
      const clip = (value) => Math.min(bottom, Math.max(top, y.at(Math.max(value, FLOOR))));
      axes(plot, x, y, xLabel, "LER per shot");
      if (log) {
        const ends = [Math.max(x.low, y.low), Math.min(x.high, y.high)];
        if (ends[0] < ends[1]) plot.svg.append(s("g", { class: "cx" }, s("path", { class: "line dotted", d: `M${x.at(ends[0])} ${y.at(ends[0])}L${x.at(ends[1])} ${y.at(ends[1])}` })));
      }
      for (const [n, name] of names.entries()) {
        const mine = own.filter((row) => key(row) === name), seen = mine.filter((row) => !row.is_limit);
        plot.svg.append(s("g", { class: colour(n) }, s("path", { class: "line", d: "M" + seen.map((row) => `${x.at(row[of])} ${clip(row.ler)}`).join("L") })));
        for (const row of mine) {
          const about = log ? `log-odds ${told(row.log_odds_from)} to ${told(row.log_odds_to)}\nexpects ${told(row.expected)} failures of ${told(row.shots)}` : `${told(100 * row.discarded)}% discarded\n${told(row.factor)} times lower`;
          const words = `${shown(name)}\n${about}\n${row.is_limit ? "no failure: LER below " + told(row.high) : told(row.failures) + " failures, LER " + told(row.ler) + " (" + interval(row.low, row.high) + ")"}`;
          const bar = row.is_limit ? null : s("path", { class: "bar", d: `M${x.at(row[of])} ${clip(row.low)}V${clip(row.high)}` });
          plot.svg.append(point(plot, words, colour(n), bar, row.is_limit ? mark("down", x.at(row[of]), clip(row.high), 5) : mark(SHAPE_NAMES[n % 4], x.at(row[of]), clip(row.ler), 4)));
        }
      }
    });
  };
  return [one("by what it claims", "claimed", "failure probability that it claims", true), one("after discarding", "discarded", "share of shots discarded, least sure first", false),
    legend([...names.map((name, n) => [shown(name), SHAPE_NAMES[n % 4], colour(n)]), ["as claimed", "line", "cx", "dotted"], ...(rows.some((row) => row.is_limit) ? [["upper limit: no failure seen", "down", "cx"]] : [])])];
}

function drawStages(rows, title) {
  const key = (row) => row.run + ", " + row.name, names = [...new Set(rows.map(key))], several = new Set(rows.map((row) => row.run)).size > 1;
  const shown = (name) => (several ? name : rows.find((row) => key(row) === name).name), stages = [...new Set(rows.map((row) => row.stage))].filter((stage) => stage > 1);
  const shape = (stage) => SHAPE_NAMES[(stage - 2) % 4];
  const one = (what, own, of, bound, yLabel, worst) => chart(`${title}, ${what}`, (width) => Math.min(320, width * 0.7), (plot) => {
    plot.edges = [72, plot.width - 12, 12, plot.height - 44];
    const [left, right, top, bottom] = plot.edges, x = scale(own.map((row) => row.p), true, left, right);
    const y = scale(own.flatMap((row) => [row[of] || row[bound] / 2, row[bound], worst ? row.worst : null]).filter((value) => value > 0), true, bottom, top);
    axes(plot, x, y, "physical error rate p", yLabel);
    for (const [n, name] of names.entries()) for (const stage of worst ? [1] : stages) {
      const mine = own.filter((row) => key(row) === name && row.stage === stage).sort((a, b) => a.p - b.p), seen = mine.filter((row) => row[of] > 0);
      if (!mine.length) continue;
      const path = (key) => "M" + (key === of ? seen : mine).map((row) => `${x.at(row.p)} ${y.at(row[key])}`).join("L");
      plot.svg.append(s("g", { class: colour(n) }, seen.length > 1 ? s("path", { class: "line", d: path(of) }) : null, worst ? s("path", { class: "line dotted", d: path("worst") }) : null));
      for (const row of mine) {
        const counted = worst ? `expected ${told(row.flops)} FLOPs${row.flops_upper === null ? "" : ", at most " + told(row.flops_upper)}\nall stages: ${told(row.worst)}`
          : `stage ${stage}: ${told(100 * row.share)}% of ${told(row.shots)} shots${row.upper === null ? "" : ", at most " + told(100 * row.upper) + "%"}\n${told(row.stage_flops)} FLOPs for each`;
        const bar = row[bound] === null || !row[of] ? null : s("path", { class: "bar", d: `M${x.at(row.p)} ${y.at(row[of])}V${y.at(row[bound])}` });
        if (row[of] > 0) plot.svg.append(point(plot, `${shown(name)}, p = ${told(row.p)}\n${counted}`, colour(n), bar, mark(worst ? "circle" : shape(stage), x.at(row.p), y.at(row[of]), 4)));
        else if (row[bound]) plot.svg.append(point(plot, `${shown(name)}, p = ${told(row.p)}\n${counted}`, colour(n), mark("down", x.at(row.p), y.at(row[bound]), 5)));
      }
    }
  });
  const later = rows.filter((row) => row.stage > 1), none = later.some((row) => !row.share && row.upper) ? [["upper bound: no shot got there", "down", "cx"]] : [];
  return [one("shares", later, "share", "upper", "share of the shots", false), one("costs", rows.filter((row) => row.stage === 1), "flops", "flops_upper", "FLOPs per syndrome", true),
    legend([...names.map((name, n) => [shown(name), "line", colour(n)]), ...stages.map((stage) => ["reaches stage " + stage, shape(stage), "cx"]), ...none, ["a shot that reaches all stages", "line", "cx", "dotted"]])];
}

const DRAW = { pareto: drawPareto, forest: drawForest, ler: drawLer, lambda: drawLambda, hypervolume: drawHypervolume, calibration: drawCalibration, stages: drawStages, latency: drawLatency };
function figure(table, name) {
  return h("figure", { id: "figure-" + table.kind }, h("figcaption", {}, h("h3", {}, table.title), h("p", { class: "soft" }, table.about)),
    DRAW[table.kind](records(table), table.title), tableTools(name + "-" + table.kind, table));
}
