// What a run came to, first of all: the gain with its interval, gold rewards, what fired.

const chip = (run) => {
  const kind = run.live ? "live" : run.status === "finished" ? "good" : run.status.startsWith("stopped") ? "bad" : "";
  return el("span", { class: `chip ${kind}` }, run.live ? "under way" : run.status);
};

const progress = (run) => {
  if (!run.planned) return el("span", {}, count(run.iterations, "iteration"));
  const left =
    run.live && run.iterations > 0 && run.seconds > 0
      ? ((run.planned - run.iterations) * run.seconds) / run.iterations
      : 0;
  return el(
    "span",
    { class: "progress" },
    el("progress", { max: run.planned, value: run.iterations, "aria-label": "iterations" }),
    el("span", {}, `${run.iterations} of ${run.planned} iterations`, left > 0 && `, about ${span(left)} left`),
  );
};

// ago says when the folder was written to last; of a run that has not ended, a long silence may be its end.
const ago = (run) => {
  if (!run.written) return "nothing was written yet";
  return `written ${span(Math.max(0, Date.now() / 1000 - run.written))} ago`;
};

// whisker is a gain with its interval, on an axis that has 0 and is shared by the table.
const whisker = (g, reach) => {
  const at = (v) => `${Math.min(100, Math.max(0, 50 + (50 * v) / reach))}%`;
  const bar = el("span", { class: "bar" }),
    dot = el("span", { class: "dot" });
  if (g.certain) {
    bar.style.left = at(g.low);
    bar.style.width = `${Math.max(1, parseFloat(at(g.high)) - parseFloat(at(g.low)))}%`;
  }
  dot.style.left = at(g.value);
  return el("span", { class: `whisker ${tone(g)}`, "aria-hidden": "true" }, g.certain && bar, dot);
};

const reachOf = (gains) =>
  Math.max(1e-9, ...gains.filter((g) => g.known).flatMap((g) => [g.value, g.low, g.high].map(Math.abs))) * 1.05;

const kindWords = { total: "all trained rewards", trained: "trained", gold: "gold: never trained on" };

const gainCells = (g, reach) =>
  g.known
    ? [
        el("td", { class: "wide", "data-label": "" }, whisker(g, reach)),
        el(
          "td",
          { class: tone(g), "data-label": "gain" },
          signed(g.value),
          g.certain && el("small", {}, ` ${signed(g.low)} to ${signed(g.high)}`),
        ),
      ]
    : [el("td", { class: "wide" }), el("td", { "data-label": "gain" }, "not known yet")];

const gainTable = (gains) => {
  const reach = reachOf(gains);
  return el(
    "table",
    { class: "gains" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["reward", "", "gain, with its 95 % interval", "", "before", "after"].map((h) => el("th", {}, h)),
      ),
    ),
    el(
      "tbody",
      {},
      gains.map((g) => {
        const [bar, value] = gainCells(g, reach);
        return el(
          "tr",
          { class: g.kind },
          el("th", { scope: "row" }, g.name),
          el("td", { class: "kind", "data-label": "" }, kindWords[g.kind] || g.kind),
          bar,
          value,
          el("td", { "data-label": "before" }, measure(g.before)),
          el("td", { "data-label": "after" }, measure(g.after)),
        );
      }),
    ),
  );
};

const verdictSection = (run) => {
  const made = run.made || {};
  const facts = [
    run.model,
    run.method,
    run.trained && `trained on ${run.trained}`,
    run.seconds > 0 && span(run.seconds),
    made.backend,
    known(made.seed) && `seed ${made.seed}`,
  ]
    .filter(Boolean)
    .join(" · ");
  return el(
    "header",
    { class: "verdict", id: "verdict" },
    el("h1", {}, run.name, " ", chip(run)),
    el("p", { class: "soft" }, facts),
    el(
      "p",
      { class: "soft" },
      progress(run),
      run.live && run.written > 0 && el("span", { class: "ago", "data-written": run.written }, ` · ${ago(run)}`),
    ),
    run.why && el("p", { class: "note" }, run.why),
    el("p", { class: `sentence ${run.verdict.tone}` }, run.verdict.says),
    (run.verdict.notes || []).map((n) => el("p", { class: "note" }, n)),
    (run.events || []).length > 0 &&
      el(
        "ul",
        { class: "events" },
        run.events.slice(-6).map((e) => el("li", {}, el("b", {}, `iteration ${e.iteration}`), " ", e.says)),
        run.events.length > 6 && el("li", {}, `and ${run.events.length - 6} earlier, in the details below`),
      ),
    (run.gains || []).length > 0 && gainTable(run.gains),
    (run.gains || []).length > 0 &&
      el(
        "p",
        { class: "soft small" },
        run.gains.some((g) => g.paired)
          ? "Held-out prompts, the same draws each time; intervals are of the differences of single prompts."
          : "Held-out prompts, the same draws each time.",
      ),
  );
};
