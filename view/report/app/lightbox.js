// One picture large, with all that is known of it: arrows go through the list, Escape closes.

const lightbox = (() => {
  let list = [],
    at = 0;
  const stage = el("div", { class: "stage" });
  const words = el("div", { class: "words" });
  const step = (by) => {
    at = (at + by + list.length) % list.length;
    show();
  };
  const dialog = el(
    "dialog",
    { class: "lightbox", "aria-label": "a picture" },
    el("button", { type: "button", class: "close", "aria-label": "close", onclick: () => dialog.close() }, "×"),
    el("button", { type: "button", class: "previous", "aria-label": "previous", onclick: () => step(-1) }, "‹"),
    stage,
    el("button", { type: "button", class: "next", "aria-label": "next", onclick: () => step(1) }, "›"),
    words,
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      event.preventDefault();
      step(by);
    }
  });
  const show = () => {
    stage.replaceChildren(list[at].picture());
    words.replaceChildren(...list[at].words(() => stage).filter(Boolean));
    dialog.classList.toggle("single", list.length < 2);
  };
  // items are {picture, words}: functions that make what is shown; words is told where pictures stand.
  return (items, first = 0) => {
    if (!dialog.isConnected) document.body.append(dialog);
    list = items;
    at = first;
    show();
    if (!dialog.open) dialog.showModal();
  };
})();

// scores are what every reward said about a sample.
const scores = (sample) =>
  el(
    "table",
    { class: "scores" },
    el("tr", {}, el("th", {}, "total"), el("td", {}, num(sample.total))),
    Object.keys(sample.scores || {})
      .sort()
      .map((name) => {
        const s = sample.scores[name];
        const parts = Object.entries(s.parts || {})
          .map(([part, v]) => `${part} ${num(v)}`)
          .join(", ");
        const found = (s.evidence || [])
          .map((e) => [e.what, e.text, known(e.value) && e.value !== 0 ? num(e.value) : ""].filter(Boolean).join(" "))
          .join("; ");
        return el(
          "tr",
          {},
          el("th", {}, name),
          el(
            "td",
            {},
            known(s.value) ? num(s.value) : `missing: ${s.missing || "no reason given"}`,
            parts && el("small", {}, parts),
            found && el("small", {}, found),
          ),
        );
      }),
  );

// media shows a file: a clip plays, a picture is a picture.
const media = (source, alt, props = {}) =>
  /^data:video|\.(mp4|webm)$/.test(source)
    ? el("video", {
        src: source,
        controls: true,
        loop: true,
        muted: true,
        playsInline: true,
        preload: "metadata",
        "aria-label": alt,
        ...props,
      })
    : el("img", { src: source, alt, loading: "lazy", decoding: "async", ...props });
