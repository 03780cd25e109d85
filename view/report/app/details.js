// What was asked for, and how the run was begun.

const facts = (list) =>
  el(
    "table",
    { class: "facts" },
    (list || []).map((f) => el("tr", {}, el("th", { scope: "row" }, f.what), el("td", {}, f.how))),
  );

const steps = (rows) =>
  el(
    "details",
    {},
    el("summary", {}, "steps of the sampler"),
    el(
      "div",
      { class: "scroll", tabIndex: 0 },
      el(
        "table",
        {},
        el(
          "tr",
          {},
          ["step", "from", "to", "deviation", ""].map((h) => el("th", {}, h)),
        ),
        rows.map((r) =>
          el(
            "tr",
            {},
            [r.step, num(r.from), num(r.to), num(r.deviation), r.trained ? "trained" : ""].map((c) =>
              el("td", {}, String(c)),
            ),
          ),
        ),
      ),
    ),
  );

const detailsSection = (run) => {
  const made = run.made || {},
    plan = run.plan;
  const begun = [
    ["program", made.version],
    ["computed by", made.backend],
    ["system", made.system],
    ["seed", known(made.seed) ? String(made.seed) : ""],
    ["prompts", made.prompts ? String(made.prompts) : ""],
    ["held-out prompts", made.heldout ? String(made.heldout) : ""],
    ["folder", run.dir],
  ]
    .filter(([, how]) => how)
    .map(([what, how]) => ({ what, how }));
  return section(
    "details",
    "What was asked for",
    plan && [
      facts(plan.facts),
      (plan.stages || []).map((s) => [
        el("h3", {}, s.title),
        facts(s.facts),
        (s.rows || []).length > 0 && steps(s.rows),
      ]),
      (plan.warnings || []).length > 0 &&
        el(
          "details",
          { class: "note" },
          el("summary", {}, `${count(plan.warnings.length, "remark")} of the plan`),
          el(
            "ul",
            {},
            plan.warnings.map((w) => el("li", {}, w)),
          ),
        ),
    ],
    (run.guided || []).length > 0 && [
      el("h3", {}, `Held-out prompts at guidance ${run.guidance}, which costs twice as much a picture`),
      gainTable(run.guided),
    ],
    (run.events || []).length > 6 &&
      el(
        "details",
        {},
        el("summary", {}, `all ${run.events.length} events`),
        el(
          "ul",
          { class: "events" },
          run.events.map((e) => el("li", {}, el("b", {}, `iteration ${e.iteration}`), " ", e.says)),
        ),
      ),
    el("h3", {}, "How it was begun"),
    facts(begun),
    el("details", {}, el("summary", {}, "config.toml"), el("pre", { tabIndex: 0 }, run.config)),
  );
};
