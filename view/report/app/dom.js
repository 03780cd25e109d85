// Elements, and numbers for people. Text always becomes a text node: nothing that a run says can become markup.

const el = (tag, props = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") e.className = value;
    else if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key in e && key !== "list") e[key] = value;
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat(9).filter((c) => c !== undefined && c !== null && c !== false && c !== ""));
  return e;
};

const known = (v) => v !== null && v !== undefined && Number.isFinite(v);

// num is a number without the digits that no reader needs.
const num = (v) => {
  if (!known(v)) return "missing";
  if (v === 0 || Math.abs(v) < 1e-12) return "0";
  const a = Math.abs(v);
  if (Number.isInteger(v) && a < 1e6) return String(v);
  if (a >= 1e6 || a < 1e-4) return v.toExponential(2);
  return a >= 100
    ? v.toFixed(1)
    : v
        .toPrecision(a >= 1 ? 4 : 3)
        .replace(/(\.\d*?)0+$/, "$1")
        .replace(/\.$/, "");
};

// score is a reward's value, to three decimals where it is small enough for them.
const score = (v) => (known(v) && Math.abs(v) < 100 ? v.toFixed(3).replace("-", "−") : num(v));

const fixed = (v) => (known(v) ? v.toFixed(3).replace("-", "−") : "missing");
const signed = (v) => {
  const s = (v < 0 ? "−" : "+") + Math.abs(v).toFixed(3);
  return s === "−0.000" ? "+0.000" : s;
};

const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

const span = (seconds) => {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  const h = Math.floor(seconds / 3600);
  return h < 48 ? `${h} h ${Math.round((seconds % 3600) / 60)} min` : `${Math.round(h / 24)} days`;
};

// tone is the class of a gain: one that the whole interval confirms.
const tone = (g) => (!g.known || !g.certain ? "" : g.low > 0 ? "better" : g.high < 0 ? "worse" : "");

const measure = (m) => {
  if (!m) return "not measured";
  const inside = m.prompts === 1 ? "one prompt" : `${fixed(m.low)} to ${fixed(m.high)}`;
  return `${fixed(m.mean)} (${inside})${m.missing ? `, ${m.missing} missing` : ""}`;
};

// section is a part of the page with its heading; what it holds is rebuilt where key changes.
const section = (id, title, ...children) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);

// choice is a row of buttons of which one is pressed.
const choice = (label, options, value, pick) => {
  const buttons = options.map(([name, says]) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(name === value),
        onclick: (event) => {
          for (const b of buttons) b.setAttribute("aria-pressed", String(b === event.currentTarget));
          pick(name);
        },
      },
      says,
    ),
  );
  buttons.forEach((b, i) => b.setAttribute("data-choice", options[i][0]));
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
};

// inTurn calls functions one after another, as many in a frame as leave it time to be drawn.
const turns = [];
const inTurn = (f) => {
  if (turns.push(f) === 1) requestAnimationFrame(turn);
};
const turn = () => {
  const began = performance.now();
  try {
    do turns.shift()?.();
    while (turns.length > 0 && performance.now() - began < 4);
  } finally {
    if (turns.length > 0) requestAnimationFrame(turn);
  }
};

// whenSeen calls f once, when an element is about to be looked at.
const waiting = new Map();
const taken = (element) => {
  const f = waiting.get(element);
  waiting.delete(element);
  watcher.unobserve(element);
  return f;
};
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting && waiting.has(entry.target)) inTurn(taken(entry.target));
  },
  { rootMargin: "400px" },
);
const whenSeen = (element, f) => {
  waiting.set(element, f);
  watcher.observe(element);
};

// whenFree is whenSeen for what takes long to draw: it is called ahead where the page has nothing else to do, since a
// frame that scrolls has no time for it.
const long = 20; // milliseconds that a drawing may take
const later = [];
const free = (deadline) => {
  while (later.length > 0 && !waiting.has(later[0])) later.shift();
  if (later.length > 0 && deadline.timeRemaining() > long) taken(later.shift())();
  if (later.length > 0) requestIdleCallback(free);
};
const whenFree = (element, f) => {
  whenSeen(element, f);
  if ("requestIdleCallback" in window && later.push(element) === 1) requestIdleCallback(free);
};
