// Pictures of a sheet, one at a time: an evaluation keeps its pictures in one file, and says where each stands.

const sheets = new Map();
const sheet = (source) => {
  if (!sheets.has(source)) {
    sheets.set(
      source,
      new Promise((done, failed) => {
        const image = new Image();
        image.onload = () => done(image);
        image.onerror = () => failed(new Error("a sheet of pictures cannot be read"));
        image.src = source;
      }),
    );
  }
  return sheets.get(source);
};

// sprite is a picture of a sheet, drawn when it is looked at, at most side pixels wide and high.
const sprite = (source, at, alt, side = 256) => {
  const by = Math.min(1, side / Math.max(at[2], at[3]));
  const canvas = el("canvas", {
    width: Math.round(at[2] * by),
    height: Math.round(at[3] * by),
    role: "img",
    "aria-label": alt,
  });
  whenSeen(canvas, () =>
    sheet(source).then(
      (image) => {
        canvas.getContext("2d").drawImage(image, ...at, 0, 0, canvas.width, canvas.height);
        canvas.dataset.drawn = "yes";
      },
      () => {
        canvas.dataset.drawn = "no";
      },
    ),
  );
  return canvas;
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
