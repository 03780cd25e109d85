// product.h: what every product of matrices takes: operands that say where element (i, k)
// lies, the runs that k is cut into, and the epilogue.
#pragma once
#include "functions.h"

// Where element (i, k) of an operand lies.
enum {
  ROWS,      // i*stride + k
  COLUMNS,   // k*stride + i
  PATCHES,   // i is an output pixel of a convolution, k a tap and an input channel
  TAPS,      // i is a tap and an input channel, k an output pixel
  SPREAD,    // i is an input pixel, k a tap and an output channel of the gradient, spread by the stride
  TURNED,    // i is an input channel, k a tap and an output channel of the weight, turned about
};
struct Window { i64 h, w, oh, ow; int in, out, kh, kw, stride, top, left, pad; };
struct Operand { void* p; i64 stride; int type, kind; };

struct ProductArgs {
  Operand a, b;
  Window win;
  i64 m, n, k;
  // k is cut into runs: of run elements each, or from starts[r] to starts[r+1]. Bf16 math pads
  // each with zeros to 32. With fold, the sum of every run is a product of its own (a
  // sample's), and they are added in order.
  const i64* starts;
  i64 run, runs;
  Mat c;
  Vec bias;
  Mat pre, gate, residual;
  i64 gate_rows, row0;  // row0: the first row of this launch
  float alpha;
  int act, fold, accumulate;
};

DEV float tap(const Operand& x, const Window& w, i64 pixel, i64 t, int c) {
  i64 ox = pixel % w.ow, oy = pixel / w.ow % w.oh, n = pixel / w.ow / w.oh;
  i64 y = oy * w.stride - w.top + t / w.kw, q = ox * w.stride - w.left + t % w.kw;
  if (y < 0 || y >= w.h || q < 0 || q >= w.w) return 0;
  return load(x.p, x.type, ((n * w.h + y) * w.w + q) * w.in + c);
}
CALLED float fetch(const Operand& x, const Window& w, i64 i, i64 k) {
  switch (x.kind) {
    case ROWS: return load(x.p, x.type, i * x.stride + k);
    case COLUMNS: return load(x.p, x.type, k * x.stride + i);
    case PATCHES: return tap(x, w, i, k / w.in, (int)(k % w.in));
    case TAPS: return tap(x, w, k, i / w.in, (int)(i % w.in));
    case SPREAD: {
      i64 t = k / w.out, px = i % w.w, py = i / w.w % w.h, n = i / w.w / w.h;
      i64 u = py + w.top - (w.kh - 1 - t / w.kw), v = px + w.left - (w.kw - 1 - t % w.kw);
      if (u < 0 || v < 0 || u % w.stride || v % w.stride) return 0;
      u /= w.stride, v /= w.stride;
      if (u >= w.oh || v >= w.ow) return 0;
      return load(x.p, x.type, ((n * w.oh + u) * w.ow + v) * w.out + k % w.out);
    }
  }
  i64 t = k / w.out, taps = w.kh * w.kw;
  return load(x.p, x.type, (k % w.out * taps + taps - 1 - t) * w.in + i);
}
DEV i64 run_start(const ProductArgs& a, i64 r) { return a.starts ? a.starts[r] : r * a.run; }

// finish is the epilogue of element (m, n), whose product times alpha is v.
CALLED void finish(const ProductArgs& a, i64 m, int n, float v) {
  if (a.bias.p) v = add(v, at(a.bias, n));
  if (a.pre.p) put(a.pre, m, n, v);
  if (a.act) v = activate(a.act, v);
  if (a.gate.p) v = mul(v, at(a.gate, m / a.gate_rows, n));
  if (a.residual.p) v = add(v, at(a.residual, m, n));
  if (a.accumulate && !a.fold) v = add(v, at(a.c, m, n));
  put(a.c, m, n, v);
}
