// Held-out prompts before and after, side by side: the same prompt from the same seed, so what differs is training.

const mostPairs = matchMedia("(max-width: 700px)").matches ? 8 : 24;

// pairsOf joins two evaluations by prompt and sample.
const pairsOf = (before, after) => {
  const first = new Map((before.samples || []).map((s) => [`${s.prompt}/${s.sample}`, s]));
  return (after.samples || [])
    .filter((s) => s.at && first.get(`${s.prompt}/${s.sample}`)?.at)
    .map((s) => ({ before: first.get(`${s.prompt}/${s.sample}`), after: s, from: before, to: after }));
};

const gainOf = (p) => (known(p.after.total) && known(p.before.total) ? p.after.total - p.before.total : null);
const by =
  (value, falling = true) =>
  (a, b) => {
    const x = value(a),
      y = value(b);
    if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
    return falling ? y - x : x - y;
  };
const orders = {
  all: null,
  best: by((p) => p.after.total),
  worst: by((p) => p.after.total, false),
  improved: by(gainOf),
  worsened: by(gainOf, false),
  changed: by((p) => p.change),
};

const shownAt = (iteration) => (iteration ? `after ${iteration}` : "before");

// origin is what a pair is made of, where it is made of a picture.
const origin = ({ from, before }, side) =>
  from.sources &&
  el("figure", {}, sprite(from.sources, before.at, `source: ${before.text}`, side), el("figcaption", {}, "source"));

const pairCard = (pair, open) => {
  const { before, after, from, to } = pair,
    gain = gainOf(pair);
  const picture = (e, s, more) =>
    el(
      "figure",
      {},
      sprite(e.sheet, s.at, `${shownAt(e.iteration)}: ${s.text}`),
      el("figcaption", {}, more, shownAt(e.iteration), " ", el("b", {}, score(s.total))),
    );
  const says =
    gain !== null && el("span", { class: `gain ${gain > 0 ? "up" : gain < 0 ? "down" : ""}` }, signed(gain));
  return el(
    "button",
    { type: "button", class: "card pair", "data-prompt": after.prompt, onclick: open },
    el("span", { class: from.sources ? "two three" : "two" }, origin(pair), picture(from, before), picture(to, after, says)),
    el("span", { class: "prompt" }, after.text, after.sample > 0 && el("small", {}, ` sample ${after.sample}`)),
  );
};

// large is a pair in the lightbox: both pictures, all scores, and the picture after every evaluation.
const large = (pair, evaluations) => ({
  picture: () =>
    el(
      "div",
      { class: pair.from.sources ? "two three" : "two" },
      origin(pair, 1024),
      [
        [pair.from, pair.before],
        [pair.to, pair.after],
      ].map(([e, s]) =>
        el(
          "figure",
          {},
          boxes.over(sprite(e.sheet, s.at, s.text, 1024), s, s.size),
          el("figcaption", {}, shownAt(e.iteration), " ", el("b", {}, score(s.total))),
        ),
      ),
    ),
  words: (stage) => [
    boxes.chooser(stage, ...[pair.before, pair.after].filter((s) => s.size || s.trails)),
    el("p", { class: "prompt" }, pair.after.text),
    el(
      "div",
      { class: "strip" },
      evaluations.map((e) => {
        const s = (e.samples || []).find((o) => o.prompt === pair.after.prompt && o.sample === pair.after.sample);
        return (
          s &&
          s.at &&
          el(
            "figure",
            {},
            sprite(e.sheet, s.at, `${shownAt(e.iteration)}: ${s.text}`, 96),
            el("figcaption", {}, `${e.iteration} · ${score(s.total)}`),
          )
        );
      }),
    ),
    el(
      "div",
      { class: "both" },
      el("div", {}, el("h4", {}, shownAt(pair.from.iteration)), scores(pair.before)),
      el("div", {}, el("h4", {}, shownAt(pair.to.iteration)), scores(pair.after)),
    ),
  ],
});

// wholeSheets is for folders without a word about single pictures: older runs.
const wholeSheets = (evaluations) =>
  el(
    "div",
    { class: "sheets" },
    evaluations.map((e) =>
      el(
        "div",
        { class: "card" },
        el("h3", {}, shownAt(e.iteration) + (e.guided ? ", under guidance" : "")),
        el(
          "button",
          {
            type: "button",
            class: "bare",
            onclick: () => lightbox([{ picture: () => media(e.sheet, ""), words: () => [] }]),
          },
          media(e.sheet, `held-out prompts ${shownAt(e.iteration)}`),
        ),
      ),
    ),
  );

const pairsSection = (run) => {
  const all = (run.evaluations || []).filter((e) => !e.guided),
    guided = (run.evaluations || []).filter((e) => e.guided);
  const told = all.filter((e) => (e.samples || []).some((s) => s.at));
  if (all.length === 0) return null;
  if (told.length < 2)
    return section(
      "pictures",
      "Held-out prompts, before and after",
      wholeSheets([...all.filter((e, i) => i === 0 || i === all.length - 1), ...guided]),
    );
  let order = "all",
    text = "",
    to = told[told.length - 1],
    pairs = [],
    most = mostPairs;
  const grid = el("div", { class: "pairs" }),
    more = el("div", { class: "more" });
  const draw = () => {
    const wanted = pairs.filter((p) => p.after.text.toLowerCase().includes(text));
    if (orders[order]) wanted.sort(orders[order]);
    const items = wanted.map((p) => large(p, told));
    grid.replaceChildren(...wanted.slice(0, most).map((p, i) => pairCard(p, () => lightbox(items, i))));
    if (wanted.length === 0) grid.append(el("p", { class: "soft" }, "No prompt holds these words."));
    more.replaceChildren(
      ...(wanted.length > most
        ? [
            el(
              "button",
              {
                type: "button",
                onclick: () => {
                  most += mostPairs;
                  draw();
                },
              },
              `show ${Math.min(mostPairs, wanted.length - most)} more of ${wanted.length}`,
            ),
          ]
        : []),
    );
  };
  const pick = async (name) => {
    order = name;
    if (name === "changed") {
      await Promise.all(
        pairs.map(async (p) => {
          p.change ??= await changes([p.from.sheet, p.before.at], [p.to.sheet, p.after.at]).catch(() => null);
        }),
      );
    }
    if (order === name) draw();
  };
  const after = (e) => {
    to = e;
    pairs = pairsOf(told[0], to);
    pick(order);
  };
  after(to);
  return section(
    "pictures",
    "Held-out prompts, before and after",
    el(
      "div",
      { class: "controls" },
      choice(
        "which pairs",
        [
          ["all", "all"],
          ["best", "best"],
          ["worst", "worst"],
          ["improved", "most improved"],
          ["worsened", "most worsened"],
          ["changed", "most changed"],
        ],
        order,
        pick,
      ),
      el(
        "label",
        {},
        "after iteration ",
        el(
          "select",
          { "data-control": "after", onchange: (event) => after(told[Number(event.target.value)]) },
          told.slice(1).map((e, i) => el("option", { value: i + 1, selected: e === to }, String(e.iteration))),
        ),
      ),
      el("input", {
        type: "search",
        placeholder: "words of a prompt",
        "aria-label": "words of a prompt",
        oninput: (event) => {
          text = event.target.value.toLowerCase();
          draw();
        },
      }),
    ),
    grid,
    more,
    guided.length > 0 && el("details", {}, el("summary", {}, "the same under guidance"), wholeSheets(guided)),
  );
};
