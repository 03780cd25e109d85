// Boxes of a reward's evidence over a picture: found ones solid, with their scores; those asked for dashed. Over a clip
// the ways of its points, by its optical flow: solid as far as the way back leads home, dashed where it is lost. One layer
// at a time: which one is chosen below the picture, and stays for the next pictures.

const boxes = (() => {
  const mostText = 32; // of a label
  let chosen = null; // null: the first reward with boxes; "": none
  const flow = "flow";
  const of = (sample) => {
    const moves = sample.trails && sample.trails.length > 0 ? [[flow, sample.trails]] : [];
    if (sample.trails && !sample.size) return moves; // boxes would have no scale
    return Object.keys(sample.scores || {})
      .sort()
      .map((name) => [name, (sample.scores[name].evidence || []).filter((e) => e.box && e.box.every(known))])
      .filter(([, list]) => list.length > 0)
      .concat(moves);
  };
  const shown = (names) => (chosen === null || (chosen !== "" && !names.includes(chosen)) ? names[0] : chosen);
  const svg = (tag, props = {}, ...children) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(props)) e.setAttribute(key, value);
    e.append(...children.flat());
    return e;
  };
  // mark is a box and its words: those of a found one stand above it, of one that was asked for below it, or inside
  // where the picture ends.
  const mark = (e) => {
    const [x, y] = [Math.min(e.box[0], e.box[2]), Math.min(e.box[1], e.box[3])];
    const at = { x, y, width: Math.abs(e.box[2] - e.box[0]), height: Math.abs(e.box[3] - e.box[1]) };
    const text = e.text && e.text.length > mostText ? `${e.text.slice(0, mostText)}…` : e.text;
    const says = [text, e.what === "found" && known(e.value) && e.value !== 0 ? e.value.toFixed(2) : ""];
    return svg(
      "g",
      { class: e.what === "found" ? "found" : "wanted" },
      svg("rect", { class: "halo", ...at }),
      svg("rect", { class: "line", ...at }),
      svg("text", { x }, says.filter(Boolean).join(" ")),
    );
  };
  // layer is the boxes of a reward, in pixels of the picture. Words are as large on any picture.
  const layer = (name, list, [width, height]) => {
    const drawn = svg(
      "svg",
      { class: "boxes", viewBox: `0 0 ${width} ${height}`, "data-reward": name, "aria-hidden": "true" },
      [...list].sort((a, b) => (a.what === "found") - (b.what === "found")).map(mark),
    );
    new ResizeObserver(([{ contentRect: r }]) => {
      if (r.width === 0) return;
      const pixel = 1 / Math.min(r.width / width, r.height / height);
      drawn.style.fontSize = `${13 * pixel}px`;
      for (const t of drawn.querySelectorAll("text")) {
        const line = t.previousSibling,
          top = Number(line.getAttribute("y")),
          bottom = top + Number(line.getAttribute("height"));
        const y = t.parentNode.getAttribute("class") === "found" ? top - 5 * pixel : bottom + 14 * pixel;
        t.setAttribute("y", y < 13 * pixel ? top + 14 * pixel : y > height - 2 * pixel ? bottom - 5 * pixel : y);
      }
    }).observe(drawn);
    return drawn;
  };
  // ways is the flow of a clip: a line for each of its points, with a dot where it ends.
  const ways = (list, [width, height]) =>
    svg(
      "svg",
      { class: "boxes", viewBox: `0 0 ${width} ${height}`, "data-reward": flow, "aria-hidden": "true" },
      list.map(({ points, lost }) => {
        const line = { points: points.map((p) => p.join(",")).join(" ") };
        const [cx, cy] = points[points.length - 1];
        return svg(
          "g",
          { class: lost ? "wanted" : "found" },
          svg("polyline", { class: "halo", ...line }),
          svg("polyline", { class: "line", ...line }),
          svg("circle", { cx, cy, r: Math.max(width, height) / 90 }),
        );
      }),
    );
  const choose = (stage, name) => {
    for (const l of stage.querySelectorAll("svg.boxes")) l.toggleAttribute("hidden", l.dataset.reward !== name);
  };
  return {
    // over lays the boxes of a sample over its picture, whose size in pixels is given, or is the file's.
    over: (picture, sample, size) => {
      const all = of(sample);
      if (all.length === 0 || picture.tagName === "VIDEO" || (!size && !sample.trails && picture.tagName !== "IMG")) return picture;
      const whole = el("span", { class: "boxed" }, picture);
      const lay = (of) => {
        whole.append(...all.map(([name, list]) => (name === flow ? ways(list, sample.at.slice(2)) : layer(name, list, of))));
        choose(whole, shown(all.map(([name]) => name)));
      };
      if (size || sample.trails) lay(size || sample.at.slice(2));
      else if (picture.naturalWidth) lay([picture.naturalWidth, picture.naturalHeight]);
      else picture.addEventListener("load", () => lay([picture.naturalWidth, picture.naturalHeight]), { once: true });
      return whole;
    },
    // chooser says whose boxes are shown, of samples beside each other.
    chooser: (stage, ...samples) => {
      const names = [...new Set(samples.flatMap((s) => of(s).map(([name]) => name)))].sort();
      if (names.length === 0) return null;
      return el(
        "div",
        { class: "controls" },
        el("span", { class: "soft" }, names.includes(flow) ? "over the clip" : "boxes"),
        choice("whose boxes are drawn", [["", "none"], ...names.map((name) => [name, name])], shown(names), (name) => {
          chosen = name;
          choose(stage(), name);
        }),
      );
    },
  };
})();
