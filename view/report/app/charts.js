// Curves, drawn by uPlot: values under the pointer in every chart of the page at once, smoothing, intervals.

// hues are told apart by people who see few colours, too (Okabe and Ito).
const hues = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#e69f00",
  "#56b4e9",
  "#8c6d31",
  "#7f7f7f",
  "#6b4fa0",
  "#b5b900",
];
const dark = matchMedia("(prefers-color-scheme: dark)");
const lighter = {
  "#0072b2": "#4aa8e0",
  "#009e73": "#2cc79c",
  "#6b4fa0": "#a48fd8",
  "#8c6d31": "#c4a05c",
  "#d55e00": "#f08a45",
};
const hueOf = (i) => {
  const h = hues[i % hues.length];
  return dark.matches ? lighter[h] || h : h;
};
const faint = (hue, share) =>
  hue +
  Math.round(255 * share)
    .toString(16)
    .padStart(2, "0");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// smoothed is a moving average that starts without a bias; gaps stay.
const smoothed = (ys, strength) => {
  let sum = 0,
    weight = 0;
  return ys.map((y) => {
    if (!known(y)) return y;
    sum = strength * sum + (1 - strength) * y;
    weight = strength * weight + (1 - strength);
    return sum / weight;
  });
};

// aligned lays curves over one list of places: undefined is where a curve has no point, null is a gap.
const aligned = (curves, of) => {
  const places = [...new Set(curves.flatMap((c) => c.x))].sort((a, b) => a - b);
  const at = new Map(places.map((x, i) => [x, i]));
  const columns = curves.map((c) =>
    of(c).map((ys) => {
      const column = new Array(places.length);
      c.x.forEach((x, i) => {
        column[at.get(x)] = ys[i];
      });
      return column;
    }),
  );
  return [places, columns];
};

const whole = (plot) => plot.curves.every((c) => c.x.every((x) => Number.isInteger(x)));

// lines are a plot's series, data and bands in uPlot's words.
const lines = (plot, strength, hidden) => {
  const series = [{}],
    bands = [],
    shown = [];
  const smooth = (c) => strength > 0 && !c.dots && !c.marks && !c.bars && c.x.length > 4;
  const [places, columns] = aligned(plot.curves, (c) => {
    const band = c.low && !c.dots;
    const ys = c.bars ? c.y.map((y) => y || null) : c.y;
    return [...(band ? [c.high, c.low] : []), ...(smooth(c) ? [c.y] : []), smooth(c) ? smoothed(c.y, strength) : ys];
  });
  const data = [places];
  plot.curves.forEach((c, i) => {
    const hue = hueOf(c.hue ?? i),
      show = !hidden.has(c.name);
    const add = (column, s) => {
      series.push({ show, ...s });
      data.push(column);
    };
    const set = columns[i];
    let k = 0;
    if (c.low && !c.dots) {
      add(set[k++], { stroke: "transparent", width: 0, points: { show: false } });
      add(set[k++], { stroke: "transparent", width: 0, points: { show: false } });
      bands.push({ series: [series.length - 2, series.length - 1], fill: faint(hue, 0.14) });
    }
    if (smooth(c)) add(set[k++], { stroke: faint(hue, 0.28), width: 1, points: { show: false } });
    if (c.bars) {
      add(set[k], {
        stroke: hue,
        fill: faint(hue, 0.4),
        width: 1,
        paths: uPlot.paths.bars({ size: [0.95, 100] }),
        points: { show: false },
      });
    } else {
      const few = c.x.length < 40;
      add(set[k], {
        stroke: hue,
        width: 2,
        dash: c.dots ? [2, 5] : undefined,
        spanGaps: false,
        points: { show: Boolean(c.dots || c.marks || few), size: c.dots || c.x.length < 3 ? 8 : 5, fill: hue },
      });
    }
    shown.push({ curve: c, series: series.length - 1, hue, raw: smooth(c) });
  });
  return { series, bands, data, shown };
};

// intervals draws the bars of what is measured now and then.
const intervals = (shown) => (u) => {
  const ctx = u.ctx;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  for (const s of shown) {
    const c = s.curve;
    if (!c.dots || !c.low || !u.series[s.series].show) continue;
    ctx.strokeStyle = s.hue;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    c.x.forEach((x, i) => {
      if (!known(c.low[i])) return;
      const px = u.valToPos(x, "x", true);
      ctx.beginPath();
      ctx.moveTo(px, u.valToPos(c.low[i], "y", true));
      ctx.lineTo(px, u.valToPos(c.high[i], "y", true));
      ctx.stroke();
    });
  }
  ctx.restore();
};

// yRange leaves room for intervals.
const yRange = (plot) => (u, low, high) => {
  for (const c of plot.curves) {
    if (c.bars) low = Math.min(low, 0);
    if (!c.dots || !c.low) continue;
    low = Math.min(low, ...c.low.filter(known));
    high = Math.max(high, ...c.high.filter(known));
  }
  if (!known(low)) return [0, 1];
  // An axis spans a hundredth of its numbers at least: noise of a curve that hardly moves is no slope.
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = Math.max(0.06 * (high - low), (0.01 * size - (high - low)) / 2) || 1e-3;
  return [low - room, high + room];
};

// xRange is where the curves are; bars are as wide as they stand apart.
const xRange = (plot) => (u, low, high) => {
  const bars = plot.curves.find((c) => c.bars && c.x.length > 1);
  if (!known(low)) return [0, 1];
  if (bars) {
    const half = (bars.x[1] - bars.x[0]) / 2;
    return [bars.x[0] - half, bars.x[bars.x.length - 1] + half];
  }
  return low === high ? [low - 1, high + 1] : [low, high];
};

const charts = new Set(); // those on the page, redrawn where the colours change
dark.addEventListener("change", () => charts.forEach((c) => c.draw()));

// Chart is a card with a plot. Its legend says the values under the pointer, and hides curves.
const chart = (plot, options = {}) => {
  const hidden = new Set();
  let u = null,
    strength = options.smoothing ?? 0,
    current = plot,
    left = false;
  const values = new Map();
  const place = el("div", { class: "plot", tabIndex: 0, role: "img", "aria-label": `${plot.title}: curves` });
  const legend = el("div", { class: "legend" });
  const where = el("span", { class: "where" });
  const card = el(
    "div",
    { class: "card chart", "data-title": plot.title },
    el("h3", {}, plot.title, where),
    place,
    legend,
  );

  const across = () => current.across || (whole(current) ? "iteration" : "");
  const say = (index) => {
    const x = index === null || index === undefined || !u ? null : u.data[0][index];
    where.textContent = x === null || x === undefined ? "" : `${across()} ${num(x)}`;
    for (const [series, value] of values) {
      const y = x === null || x === undefined ? undefined : u.data[series][index];
      value.textContent = known(y) ? num(y) : "";
    }
  };
  // keys are the legend's, before the first drawing without a place for values.
  const keys = (shown) => {
    values.clear();
    legend.replaceChildren(
      ...current.curves.map((c, i) => {
        const value = el("b");
        if (shown) values.set(shown[i].series, value);
        const mark = el("i");
        mark.style.background = hueOf(c.hue ?? i);
        return el(
          "button",
          {
            type: "button",
            "aria-pressed": String(!hidden.has(c.name)),
            title: "show or hide",
            onclick: () => {
              if (!hidden.delete(c.name)) hidden.add(c.name);
              draw();
            },
          },
          mark,
          c.name,
          value,
        );
      }),
    );
  };
  const draw = () => {
    if (u) u.destroy();
    const l = lines(current, strength, hidden),
      isWhole = whole(current);
    keys(l.shown);
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    u = new uPlot(
      {
        width: Math.max(place.clientWidth, 200),
        height: 220,
        legend: { show: false },
        series: l.series,
        bands: l.bands,
        scales: { x: { time: false, range: xRange(current) }, y: { range: yRange(current) } },
        axes: [
          {
            ...axis,
            size: 30,
            incrs: isWhole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] : undefined,
          },
          {
            ...axis,
            size: (_, v) => 18 + 7 * Math.max(3, ...(v || []).map((s) => s.length)),
            values: (_, v) => ticks(v),
          },
        ],
        cursor: {
          sync:
            isWhole && !current.curves.some((c) => c.bars) ? { key: "iterations", scales: ["x", null] } : undefined,
          points: { size: 7 },
        },
        hooks: { setCursor: [(me) => say(me.cursor.idx)], draw: [intervals(l.shown)] },
      },
      l.data,
      place,
    );
  };
  const ticks = (v) => {
    const step = v.length > 1 ? Math.abs(v[1] - v[0]) : 0.001;
    let digits = 0; // as many as tell neighbours apart without rounding them
    while (digits < 7 && Math.abs(step - Number(step.toFixed(digits))) > step * 1e-6) digits++;
    if (digits > 6 || v.some((x) => Math.abs(x) >= 1e6)) {
      const most = Math.max(...v.map(Math.abs));
      const figures = Math.min(6, Math.max(0, Math.ceil(Math.log10(most / step) - 1e-6)));
      return v.map((x) => (Math.abs(x) < step / 1e6 ? "0" : x.toExponential(figures).replace(/-/g, "−")));
    }
    return v.map((x) => x.toFixed(digits).replace("-", "−"));
  };
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !u) return;
    event.preventDefault();
    const at = Math.min(Math.max((u.cursor.idx ?? -1) + step, 0), u.data[0].length - 1);
    u.setCursor({ left: u.valToPos(u.data[0][at], "x"), top: u.over.clientHeight / 2 });
  });
  const resized = new ResizeObserver(() => {
    if (u && place.clientWidth > 50 && place.clientWidth !== u.width) u.setSize({ width: place.clientWidth, height: 220 });
  });

  const me = {
    card,
    draw,
    smooth(by) {
      strength = by;
      if (u) draw();
    },
    show(next) {
      current = next;
      if (u) draw();
    },
    gone() {
      left = true;
      charts.delete(me);
      resized.disconnect();
      if (u) u.destroy();
      u = null;
    },
  };
  keys();
  whenFree(card, () => {
    if (left) return;
    charts.add(me);
    draw();
    resized.observe(place);
  });
  return me;
};

// spark is a curve of a table's row.
const spark = (curve) => {
  const canvas = el("canvas", { class: "spark", width: 240, height: 56, "aria-hidden": "true" });
  const ys = curve.y.filter(known);
  if (ys.length < 2) return canvas;
  const low = Math.min(...ys),
    high = Math.max(...ys),
    ctx = canvas.getContext("2d");
  const first = curve.x[0],
    last = curve.x[curve.x.length - 1];
  ctx.strokeStyle = hueOf(0);
  ctx.lineWidth = 2.5;
  ctx.beginPath();
  let pen = false;
  smoothed(curve.y, 0.6).forEach((y, i) => {
    if (!known(y)) {
      pen = false;
      return;
    }
    const x = 4 + (232 * (curve.x[i] - first)) / Math.max(last - first, 1e-9),
      h = 52 - (48 * (y - low)) / Math.max(high - low, 1e-9);
    if (pen) ctx.lineTo(x, h);
    else ctx.moveTo(x, h);
    pen = true;
  });
  ctx.stroke();
  return canvas;
};
