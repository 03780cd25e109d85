// Conversations: what was asked, what the model said, what it looked at and how that came back. A word is as blue as
// its episode's advantage is above 0 and as orange as it is below, and the paler, the surer the model was of it: what
// the update moves most stands out.

const wordOf = (word, advantage) => {
  const e = el("span", { title: `probability ${word.p.toFixed(3)}` }, word.t);
  if (advantage) {
    const strength = Math.min(1, Math.abs(advantage)) * (0.12 + 0.6 * (1 - word.p));
    e.style.background = `rgba(${advantage > 0 ? "0, 114, 178" : "213, 94, 0"}, ${strength.toFixed(2)})`;
  }
  return e;
};

const seen = (pictures, what) =>
  (pictures || []).map((s) =>
    el(
      "figure",
      { class: "seen" },
      media(s.source, what, { width: Math.min(Math.max(s.width, 96), 320) }),
      el("figcaption", {}, `${what}, ${s.width} × ${s.height}${s.from ? ` (made from ${s.from})` : ""}`),
    ),
  );

const talkCard = (t) =>
  el(
    "article",
    { class: "card talk" },
    el(
      "h3",
      {},
      `iteration ${t.iteration}, prompt ${t.prompt}, sample ${t.sample}`,
      el("small", {}, ` score ${num(t.total)}`, known(t.advantage) && `, advantage ${signed(t.advantage)}`),
    ),
    el(
      "div",
      { class: "asked" },
      t.picture &&
        el(
          "figure",
          {},
          media(t.picture, "the question's picture with the crops that were looked at"),
          el("figcaption", {}, "with its crops"),
        ),
      seen(t.given, "as the model saw it"),
    ),
    el("p", { class: "ask" }, t.ask),
    (t.turns || []).map((turn) =>
      el(
        "div",
        { class: "turn" },
        el(
          "p",
          { class: "said" },
          (turn.words || []).map((w) => wordOf(w, t.advantage)),
        ),
        (turn.calls || []).map((c) => el("p", { class: "call" }, c)),
        seen(turn.saw, "what came back, as the model saw it"),
      ),
    ),
    el("p", { class: "soft" }, t.end),
  );

const talksSection = (run) => {
  const talks = run.talks || [];
  if (talks.length === 0) return null;
  const iterations = [...new Set(talks.map((t) => t.iteration))];
  const grid = el("div", { class: "talks" });
  let when = "all",
    which = "all";
  const draw = () =>
    grid.replaceChildren(
      ...talks
        .filter(
          (t) =>
            (when === "all" || String(t.iteration) === when) &&
            (which === "all" || (which === "better") === t.advantage > 0),
        )
        .map(talkCard),
    );
  draw();
  return section(
    "conversations",
    "Conversations",
    el(
      "p",
      { class: "soft" },
      "Blue: the episode was better than its group; orange: worse. The stronger, the less sure the model was of the " +
        "word. Boxes are the crops that it looked at.",
    ),
    el(
      "div",
      { class: "controls" },
      choice(
        "of which iteration",
        [["all", "all"], ...iterations.map((i) => [String(i), `iteration ${i}`])],
        when,
        (v) => {
          when = v;
          draw();
        },
      ),
      choice(
        "which conversations",
        [
          ["all", "all"],
          ["better", "better than the group"],
          ["worse", "worse"],
        ],
        which,
        (v) => {
          which = v;
          draw();
        },
      ),
    ),
    grid,
  );
};
