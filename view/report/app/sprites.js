// Pictures of a sheet, one at a time: an evaluation keeps its pictures in one file, and says where each stands.

const sheets = new Map();

// once is the address of a picture that is a part of the page, so that every place that shows it shares one copy.
const once = (source) => {
  const [head, text] = source.split(";base64,");
  if (!text) return source;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return URL.createObjectURL(new Blob([bytes], { type: head.slice(5) }));
};
const sheet = (source) => {
  if (!sheets.has(source)) {
    sheets.set(
      source,
      new Promise((done, failed) => {
        const image = new Image();
        image.onload = () => done(image);
        image.onerror = () => failed(new Error("a sheet of pictures cannot be read"));
        image.src = moving.has(source) ? once(source) : source;
      }),
    );
  }
  return sheets.get(source);
};

// moving are sheets of clips: animated pictures, which play where the reader has not asked for rest.
const moving = new Set();
const rest = matchMedia("(prefers-reduced-motion: reduce)");

// sprite is a picture of a sheet, drawn when it is looked at, at most side pixels wide and high.
const sprite = (source, at, alt, side = 256) => {
  const plays = moving.has(source) && !rest.matches;
  const shown = plays ? opening(at, alt) : still(at, alt, side);
  whenSeen(shown, () =>
    sheet(source).then(
      (image) => {
        if (plays) shown.append(behind(image, at));
        else shown.getContext("2d").drawImage(image, ...at, 0, 0, shown.width, shown.height);
        shown.dataset.drawn = "yes";
      },
      () => {
        shown.dataset.drawn = "no";
      },
    ),
  );
  return shown;
};

const still = (at, alt, side) => {
  const by = Math.min(1, side / Math.max(at[2], at[3]));
  return el("canvas", {
    width: Math.round(at[2] * by),
    height: Math.round(at[3] * by),
    role: "img",
    "aria-label": alt,
  });
};

// opening is a window of a clip's size; behind it lies the whole sheet, of which a canvas would show the first frame.
const opening = (at, alt) => {
  const shown = el("span", { class: "sprite", role: "img", "aria-label": alt });
  shown.style.aspectRatio = `${at[2]} / ${at[3]}`;
  return shown;
};
const behind = (image, [left, top, width, height]) => {
  const whole = el("img", { src: image.src, alt: "" });
  whole.style.width = `${(100 * image.naturalWidth) / width}%`;
  whole.style.left = `${(-100 * left) / width}%`;
  whole.style.top = `${(-100 * top) / height}%`;
  return whole;
};

// thumbprint is a picture in few pixels, to be compared with another.
const thumbprint = async (source, at) => {
  const image = await sheet(source),
    side = 24;
  const small = el("canvas", { width: side, height: side }).getContext("2d", { willReadFrequently: true });
  small.drawImage(image, ...at, 0, 0, side, side);
  return small.getImageData(0, 0, side, side).data;
};

// changes is how far two pictures are apart: the mean difference of their levels, of 255.
const changes = async (a, b) => {
  const [x, y] = await Promise.all([thumbprint(...a), thumbprint(...b)]);
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += i % 4 === 3 ? 0 : Math.abs(x[i] - y[i]);
  return sum / (0.75 * x.length);
};
