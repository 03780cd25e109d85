// Several runs: what each came to, and their curves over each other on shared axes.

const mostOver = 8; // curves are told apart up to here

const sorts = {
  name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  gain: (a, b) => (totalGain(b)?.value ?? -Infinity) - (totalGain(a)?.value ?? -Infinity),
  iterations: (a, b) => b.iterations - a.iterations,
  written: (a, b) => b.written - a.written,
  fired: (a, b) => b.fired - a.fired,
};
const totalGain = (run) => (run.gains || []).find((g) => g.kind === "total" && g.known);

const goldCells = (run) =>
  (run.gains || [])
    .filter((g) => g.kind === "gold" && g.known)
    .map((g) => el("span", { class: `goldgain ${tone(g)}` }, `${g.name} ${signed(g.value)}`));

const overviewRow = (run, reach, picked, pick) => {
  const g = totalGain(run);
  return el(
    "tr",
    { "data-run": run.id },
    el(
      "td",
      { class: "pick", "data-label": "" },
      el("input", {
        type: "checkbox",
        checked: picked,
        "aria-label": `curves of ${run.name}`,
        onchange: (event) => pick(event.target.checked),
      }),
    ),
    el(
      "th",
      { scope: "row" },
      el("a", { href: `#run=${run.id}` }, run.name),
      el("small", {}, [run.model, run.method].filter(Boolean).join(" · ")),
    ),
    el(
      "td",
      { "data-label": "" },
      chip(run),
      el("small", {}, run.planned ? `${run.iterations} of ${run.planned}` : `${run.iterations}`),
    ),
    g
      ? gainCells(g, reach)
      : [el("td", { class: "wide" }), el("td", { class: "soft", "data-label": "gain" }, "not known yet")],
    el("td", { "data-label": "gold" }, goldCells(run)),
    el("td", { class: run.fired ? "worse" : "soft", "data-label": "monitors fired" }, String(run.fired)),
    el("td", { class: "wide" }, spark(run.reward)),
    el("td", { class: "soft", "data-label": "took" }, run.seconds > 0 ? span(run.seconds) : ""),
  );
};

// over lays a curve of several runs over each other; each keeps its hue in every chart.
const over = (title, runs, hueBy, curve) => {
  const curves = runs
    .map((r) => [r, curve(r)])
    .filter(([, c]) => c && c.x.length > 0)
    .map(([r, c]) => ({
      ...c,
      name: r.name,
      hue: hueBy.get(r.id),
      dots: false,
      marks: c.dots || c.marks,
      low: undefined,
      high: undefined,
    }));
  return curves.length > 0 ? { title, curves } : null;
};

const overlays = (runs, hueBy) => {
  const names = [...new Set(runs.flatMap((r) => Object.keys(r.heldout || {})))].filter((n) => n !== "total").sort();
  const alike = runs.every((r) => r.trained === runs[0].trained);
  const gold = (n) => runs.some((r) => (r.gains || []).some((g) => g.name === n && g.kind === "gold"));
  return [
    alike && over("Held-out reward", runs, hueBy, (r) => r.heldout.total),
    alike && over("Reward of the training samples", runs, hueBy, (r) => r.reward),
    ...names.map((n) => over(`Held-out “${n}”${gold(n) ? ", gold" : ""}`, runs, hueBy, (r) => r.heldout[n])),
  ].filter(Boolean);
};

const overview = (runs, differences) => {
  let list = runs,
    order = "written",
    text = "",
    strength = 0,
    made = [];
  const picked = new Set(
    [...runs]
      .sort(sorts.written)
      .slice(0, mostOver)
      .map((r) => r.id),
  );
  const hueBy = new Map(),
    body = el("tbody"),
    grid = el("div", { class: "plots" }),
    says = el("p", { class: "soft" });
  const hueFor = () => {
    for (const id of [...hueBy.keys()]) if (!picked.has(id)) hueBy.delete(id);
    for (const id of picked) {
      if (hueBy.has(id)) continue;
      const used = new Set(hueBy.values());
      hueBy.set(
        id,
        hues.findIndex((_, i) => !used.has(i)) >= 0 ? hues.findIndex((_, i) => !used.has(i)) : hueBy.size,
      );
    }
  };
  // A row stays what it is until its run says something new, so that one run's news cost one row.
  const built = new Map();
  const rowOf = (r, reach) => {
    const was = built.get(r.id);
    if (was?.run === r && was.reach === reach) return was.row;
    const row = overviewRow(r, reach, picked.has(r.id), (on) => {
      if (on) picked.add(r.id);
      else picked.delete(r.id);
      curves();
    });
    built.set(r.id, { run: r, reach, row });
    return row;
  };
  const rows = () => {
    const reach = reachOf(list.map(totalGain).filter(Boolean));
    const wanted = list
      .filter((r) => r.name.toLowerCase().includes(text))
      .sort(sorts[order])
      .map((r) => rowOf(r, reach));
    const now = [...body.children];
    if (now.length === wanted.length && now.every((row, i) => row.dataset.run === wanted[i].dataset.run))
      now.forEach((row, i) => row !== wanted[i] && row.replaceWith(wanted[i]));
    else body.replaceChildren(...wanted);
    const live = list.filter((r) => r.live).length;
    says.textContent =
      `${count(list.length, "run")}, ${live} of them under way. ` +
      "Gains are of held-out prompts, the same draws before and after.";
  };
  let drawn = [];
  const curves = () => {
    hueFor();
    const chosen = list.filter((r) => picked.has(r.id));
    if (chosen.length > 0 && chosen.length === drawn.length && chosen.every((r, i) => r === drawn[i])) return;
    drawn = chosen;
    const plots = chosen.length > 0 ? overlays(chosen, hueBy) : [];
    if (made.length === plots.length && made.every((c, i) => c.card.dataset.title === plots[i].title)) {
      made.forEach((c, i) => c.show(plots[i]));
      return;
    }
    made.forEach((c) => c.gone());
    made = plots.map((p) => chart(p, { smoothing: strength }));
    grid.replaceChildren(...made.map((c) => c.card));
    if (plots.length === 0)
      grid.append(el("p", { class: "soft" }, "No curve yet: pick runs above, or wait for their first iterations."));
  };
  const repaint = () => {
    built.clear(); // lines of a row are drawn in colours of light or of dark
    rows();
  };
  dark.addEventListener("change", repaint);
  rows();
  curves();
  const head = (name, says) =>
    el(
      "th",
      {},
      name
        ? el(
            "button",
            {
              type: "button",
              "data-sort": name,
              onclick: () => {
                order = name;
                rows();
              },
            },
            says,
          )
        : says,
    );
  const element = el(
    "div",
    {},
    el("header", { class: "verdict", id: "verdict" }, el("h1", {}, "Runs"), says),
    el(
      "div",
      { class: "controls" },
      el("input", {
        type: "search",
        id: "find",
        placeholder: "find a run",
        "aria-label": "find a run",
        oninput: (event) => {
          text = event.target.value.toLowerCase();
          rows();
        },
      }),
    ),
    el(
      "table",
      { class: "runs" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", {}, el("span", { class: "hide" }, "curves")),
          head("name", "run"),
          head("iterations", "iterations"),
          el("th", {}),
          head("gain", "gain (95 %)"),
          el("th", {}, "gold gains"),
          head("fired", "monitors fired"),
          el("th", {}, "reward"),
          head("written", "took"),
        ),
      ),
      body,
    ),
    section(
      "curves",
      "Curves over each other",
      el(
        "div",
        { class: "controls" },
        el(
          "label",
          {},
          "smoothing ",
          el("input", {
            type: "range",
            min: 0,
            max: 0.98,
            step: 0.02,
            value: 0,
            "data-control": "smoothing",
            oninput: (event) => {
              strength = Number(event.target.value);
              made.forEach((c) => c.smooth(strength));
            },
          }),
        ),
        el("span", { class: "soft small" }, "of the runs that are ticked above"),
      ),
      grid,
    ),
    (differences || []).length > 0 &&
      section(
        "differences",
        "What differs from the first",
        differences.map((d) =>
          el(
            "details",
            {},
            el("summary", {}, `${d.name}: ${count(d.lines.length, "line")}`),
            el("pre", {}, d.lines.join("\n")),
          ),
        ),
      ),
  );
  return {
    element,
    update(next) {
      for (const r of next) if (!list.some((o) => o.id === r.id) && picked.size < mostOver) picked.add(r.id);
      list = next;
      rows();
      curves();
    },
    gone() {
      dark.removeEventListener("change", repaint);
      made.forEach((c) => c.gone());
    },
  };
};
