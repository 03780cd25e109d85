// The page: a list of runs, or one of them. The address says which (#run=ID).

const root = document.getElementById("app");
const given = document.getElementById("data");
const state = { runs: [], documents: new Map(), view: null };

const wanted = () => {
  const id = new URLSearchParams(location.hash.slice(1)).get("run");
  if (id) return id;
  return state.runs.length === 1 ? state.runs[0].id : "";
};

// sections of a run are built anew where what they show has changed; curves take their new points in place.
const runView = (run) => {
  const curves = curvesSection(run);
  const builders = {
    verdict: verdictSection,
    pictures: pairsSection,
    iterations: wallSection,
    curves: () => curves.element,
    conversations: talksSection,
    workers: workersSection,
    details: detailsSection,
  };
  const keys = {
    verdict: (r) => [r.name, r.status, r.iterations, r.planned, r.seconds, r.written, r.verdict, r.gains, r.events],
    pictures: (r) => r.evaluations,
    iterations: (r) => [r.evaluations, r.kept],
    curves: () => "",
    conversations: (r) => r.talks,
    workers: (r) => r.workers,
    details: (r) => [r.plan, r.config, r.guided],
  };
  const places = {},
    was = {};
  const element = el("div", { class: "run" });
  const nav = el("nav", { class: "sections", "aria-label": "parts of the page" });
  const build = (next) => {
    for (const e of next.evaluations || []) if (e.plays) moving.add(e.sheet);
    for (const [name, make] of Object.entries(builders)) {
      const key = JSON.stringify(keys[name](next));
      if (was[name] === key) continue;
      was[name] = key;
      const built = make(next) || el("span", { hidden: true });
      if (places[name]) places[name].replaceWith(built);
      else element.append(built);
      places[name] = built;
    }
    nav.replaceChildren(
      ...(state.runs.length > 1 ? [el("a", { href: "#" }, "all runs")] : []),
      ...Object.values(places)
        .filter((p) => p.tagName === "SECTION")
        .map((p) =>
          el(
            "button",
            { type: "button", "data-part": p.id, onclick: () => p.scrollIntoView({ behavior: "smooth" }) },
            p.querySelector("h2").textContent,
          ),
        ),
    );
  };
  build(run);
  places.verdict.after(nav);
  return {
    element,
    update(next) {
      build(next);
      places.verdict.after(nav);
      curves.update(next);
    },
    gone: curves.gone,
  };
};

const put = (name, view) => {
  state.view?.gone();
  state.view = { name, ...view };
  root.replaceChildren(view.element);
  root.dataset.view = name || "runs";
};

const failed = (error) =>
  put("failed", {
    element: el("p", { class: "note" }, `This run cannot be shown: ${error.message}`),
    update() {},
    gone() {},
  });

const show = async (again) => {
  const id = wanted();
  if (!id) {
    if (state.view?.name === "") state.view.update(state.runs);
    else if (state.runs.length > 0) put("", overview(state.runs, state.differences));
    else
      put("none", {
        element: el("p", { class: "soft" }, "No run is there yet. One appears here as soon as its folder does."),
        update() {},
        gone() {},
      });
    document.title = state.runs.length > 0 ? `${count(state.runs.length, "run")} - darkroom` : "darkroom";
    return;
  }
  if (!state.runs.some((r) => r.id === id)) return failed(new Error("there is no run of this address"));
  try {
    const run = state.server ? await state.server.document(id) : state.documents.get(id);
    if (wanted() !== id) return;
    document.title = `${run.live ? `${run.iterations}: ` : ""}${run.name} - darkroom`;
    if (state.view?.name === id && again) state.view.update(run);
    else put(id, runView(run));
  } catch (error) {
    failed(error);
  }
};

// Keys: / finds, b goes back to all runs, j and k go from part to part.
document.addEventListener("keydown", (event) => {
  if (
    event.target.matches("input, select, textarea") ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    document.querySelector("dialog[open]")
  )
    return;
  const parts = [...root.querySelectorAll("section:not([hidden])")];
  const now = parts.findIndex((p) => p.getBoundingClientRect().bottom > 40);
  const act = {
    "/": () => root.querySelector("input[type=search]")?.focus(),
    b: () => {
      location.hash = "";
    },
    j: () => parts[parts[now]?.getBoundingClientRect().top > 40 ? now : now + 1]?.scrollIntoView(),
    k: () => (now > 0 ? parts[now - 1] : root).scrollIntoView(),
  }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

addEventListener("hashchange", () => {
  scrollTo(0, 0);
  show(false);
});
setInterval(() => {
  for (const e of document.querySelectorAll(".ago"))
    e.textContent = ` · ${ago({ written: Number(e.dataset.written) })}`;
}, 1000);

if (given) {
  const all = JSON.parse(given.textContent);
  state.runs = all.runs;
  state.differences = all.differences;
  for (const r of all.runs) state.documents.set(r.id, r);
  show(false);
} else {
  let due = 0;
  state.server = live((runs, changed) => {
    state.runs = runs;
    const id = wanted();
    if (id && state.view?.name === id && !changed.includes(id)) return;
    // Where many runs write, changes come without a pause: the first says when the page is drawn again.
    if (due && state.view) return;
    clearTimeout(due);
    due = setTimeout(
      () => {
        due = 0;
        show(true);
      },
      state.view ? 150 : 0,
    );
  });
}
