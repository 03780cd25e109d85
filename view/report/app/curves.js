// All curves of a run. They share the pointer; smoothing leaves what was measured visible behind the line.

const curvesSection = (run) => {
  let made = [],
    strength = 0,
    text = "";
  const grid = el("div", { class: "plots" });
  const filter = () => {
    for (const c of made) c.card.hidden = !c.card.dataset.title.toLowerCase().includes(text);
  };
  const show = (plots) => {
    if (made.length === plots.length && made.every((c, i) => c.card.dataset.title === plots[i].title)) {
      made.forEach((c, i) => c.show(plots[i]));
      return;
    }
    made.forEach((c) => c.gone());
    made = plots.map((p) => chart(p, { smoothing: strength }));
    grid.replaceChildren(...made.map((c) => c.card));
    filter();
  };
  show(run.plots || []);
  const me = section(
    "curves",
    "Curves",
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
      el("input", {
        type: "search",
        placeholder: "find a curve",
        "aria-label": "find a curve",
        oninput: (event) => {
          text = event.target.value.toLowerCase();
          filter();
        },
      }),
      el(
        "span",
        { class: "soft small" },
        "drag over a chart to enlarge a part, double-click for all; arrows move the pointer",
      ),
    ),
    grid,
  );
  return { element: me, update: (next) => show(next.plots || []), gone: () => made.forEach((c) => c.gone()) };
};
