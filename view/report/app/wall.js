// Pictures by iteration: held-out prompts as film strips, and the best and the worst training sample of iterations.

const stripRows = 8,
  wallStep = 24;

const strips = (run) => {
  const told = (run.evaluations || []).filter((e) => !e.guided && (e.samples || []).some((s) => s.at));
  if (told.length < 3) return null; // two are the pairs above
  const prompts = told[told.length - 1].samples.filter((s) => s.at);
  let rows = stripRows;
  const table = el("div", {
    class: "strips",
    tabIndex: 0,
    role: "group",
    "aria-label": "held-out prompts by iteration",
  });
  const more = el("div", { class: "more" });
  table.style.setProperty("--film", `${Math.min(120 * told.length, 1340)}px`);
  const draw = () => {
    table.replaceChildren(
      ...prompts.slice(0, rows).map((p) => {
        const line = told
          .map((e) => [e, e.samples.find((s) => s.prompt === p.prompt && s.sample === p.sample)])
          .filter(([, s]) => s?.at);
        const items = line.map(([e, s]) => ({
          picture: () =>
            el(
              "figure",
              {},
              boxes.over(sprite(e.sheet, s.at, s.text, 1024), s, s.size),
              el("figcaption", {}, shownAt(e.iteration), " ", el("b", {}, score(s.total))),
            ),
          words: (stage) => [s.size && boxes.chooser(stage, s), el("p", { class: "prompt" }, s.text), scores(s)],
        }));
        return el(
          "div",
          { class: "film" },
          el("p", { class: "prompt" }, p.text),
          el(
            "div",
            { class: "frames" },
            line.map(([e, s], i) =>
              el(
                "button",
                {
                  type: "button",
                  class: "bare",
                  "aria-label": `${shownAt(e.iteration)}, ${score(s.total)}`,
                  onclick: () => lightbox(items, i),
                },
                sprite(e.sheet, s.at, s.text, 128),
                el("span", {}, `${e.iteration} · `, el("b", {}, score(s.total))),
              ),
            ),
          ),
        );
      }),
    );
    more.replaceChildren(
      ...(prompts.length > rows
        ? [
            el(
              "button",
              {
                type: "button",
                onclick: () => {
                  rows += stripRows;
                  draw();
                },
              },
              `show more of ${prompts.length} prompts`,
            ),
          ]
        : []),
    );
  };
  draw();
  return el("div", {}, el("h3", {}, "Held-out prompts, evaluation by evaluation"), table, more);
};

// extremes says of kept samples which is its iteration's best and which its worst.
const extremes = (kept) => {
  const range = new Map();
  for (const k of kept) {
    const r = range.get(k.iteration) || [Infinity, -Infinity];
    range.set(k.iteration, [Math.min(r[0], k.total), Math.max(r[1], k.total)]);
  }
  return kept.map((k) => ({
    ...k,
    best: k.total === range.get(k.iteration)[1],
    worst: k.total === range.get(k.iteration)[0],
  }));
};

const trained = (run) => {
  const kept = extremes(run.kept || []);
  if (kept.length === 0) return null;
  let which = "both",
    order = "newest",
    text = "",
    most = wallStep;
  const wall = el("div", { class: "wall" }),
    more = el("div", { class: "more" });
  const draw = () => {
    const wanted = kept.filter((k) => (which === "both" || k[which]) && k.text.toLowerCase().includes(text));
    wanted.sort(
      {
        newest: (a, b) => b.iteration - a.iteration || b.total - a.total,
        oldest: (a, b) => a.iteration - b.iteration || b.total - a.total,
        highest: (a, b) => b.total - a.total,
        lowest: (a, b) => a.total - b.total,
      }[order],
    );
    const items = wanted.map((k) => ({
      picture: () =>
        k.sources
          ? el("div", { class: "two" }, [
              k.sources.map((s) => media(s, k.text)),
              boxes.over(media(k.source, k.text, { loading: "eager" }), k),
            ])
          : boxes.over(media(k.source, k.text, { loading: "eager" }), k),
      words: (stage) => [
        boxes.chooser(stage, k),
        el(
          "p",
          { class: "soft" },
          `training sample ${k.sample} of iteration ${k.iteration}, advantage ${num(k.advantage)}`,
        ),
        el("p", { class: "prompt" }, k.text),
        scores(k),
      ],
    }));
    wall.replaceChildren(
      ...wanted
        .slice(0, most)
        .map((k, i) =>
          el(
            "button",
            { type: "button", class: "bare kept", onclick: () => lightbox(items, i) },
            media(k.source, k.text, { controls: undefined }),
            el("span", {}, `${k.iteration} · `, el("b", { class: k.best ? "up" : "down" }, score(k.total))),
            el("span", { class: "prompt" }, k.text),
          ),
        ),
    );
    if (wanted.length === 0) wall.append(el("p", { class: "soft" }, "No kept sample is like that."));
    more.replaceChildren(
      ...(wanted.length > most
        ? [
            el(
              "button",
              {
                type: "button",
                onclick: () => {
                  most += wallStep;
                  draw();
                },
              },
              `show ${Math.min(wallStep, wanted.length - most)} more of ${wanted.length}`,
            ),
          ]
        : []),
    );
  };
  draw();
  return el(
    "div",
    {},
    el("h3", {}, "The best and the worst training sample of iterations"),
    el(
      "div",
      { class: "controls" },
      choice(
        "which samples",
        [
          ["both", "both"],
          ["best", "best"],
          ["worst", "worst"],
        ],
        which,
        (v) => {
          which = v;
          draw();
        },
      ),
      choice(
        "in which order",
        [
          ["newest", "newest"],
          ["oldest", "oldest"],
          ["highest", "highest"],
          ["lowest", "lowest"],
        ],
        order,
        (v) => {
          order = v;
          draw();
        },
      ),
      el("input", {
        type: "search",
        placeholder: "words of a prompt",
        "aria-label": "words of a training prompt",
        oninput: (event) => {
          text = event.target.value.toLowerCase();
          draw();
        },
      }),
    ),
    wall,
    more,
  );
};

const wallSection = (run) => {
  const all = [strips(run), trained(run)].filter(Boolean);
  return all.length > 0 ? section("iterations", "Pictures by iteration", all) : null;
};
