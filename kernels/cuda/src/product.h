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
// pitch is the distance between the starts of runs of k (below) in an operand whose rows lie along k.
struct Operand { void* p; i64 stride, pitch; int type, kind; };

struct ProductArgs {
  Operand a, b;
  Window win;
  i64 m, n, k;
  // k is cut into runs: of run elements each, or from one start to the next, which are listed in few
  // where they are few. Bf16 math pads each with zeros to 32. With fold, the sum of every run is a
  // product of its own (a sample's), and they are added in order.
  const i64* starts;
  i64 run, runs;
  Mat c;
  Vec bias;
  Mat pre, gate, residual;
  i64 gate_rows, row0;  // row0: the first row of this launch
  float alpha;
  int act, fold, accumulate, listed;
  int paired, pad;  // paired: n is even, and two neighbours of every matrix below can be read at once
  int few[16];
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
DEV i64 run_start(const ProductArgs& a, i64 r) { return a.listed ? a.few[r] : a.starts ? a.starts[r] : r * a.run; }

// finish is the epilogue of element (m, n), whose product times alpha is v.
template <class F> DEV void finish_by(const ProductArgs& a, i64 m, int n, float v, F activate) {
  if (a.bias.p) v = add(v, at(a.bias, n));
  if (a.pre.p) put(a.pre, m, n, v);
  if (a.act) v = activate(a.act, v);
  if (a.gate.p) v = mul(v, at(a.gate, m / a.gate_rows, n));
  if (a.residual.p) v = add(v, at(a.residual, m, n));
  if (a.accumulate && !a.fold) v = add(v, at(a.c, m, n));
  put(a.c, m, n, v);
}
CALLED void finish(const ProductArgs& a, i64 m, int n, float v) { finish_by(a, m, n, v, activate); }

// Two neighbours in a row, where the argument says that they lie as one.
struct alignas(8) Pair { float x, y; };
DEV Pair pair_at(const void* p, int type, i64 i) {
  Pair v;
  if (type == F32)
    v = ((const Pair*)p)[i >> 1];
  else {
    uint32_t u = ((const uint32_t*)p)[i >> 1];
    v = {from_bits(u << 16), from_bits(u & 0xffff0000u)};
  }
  return {flush(v.x), flush(v.y)};
}
DEV void put_pair(const Mat& m, i64 r, int c, Pair v) {
  i64 i = (r * m.stride + c) >> 1;
  if (m.type == F32)
    ((Pair*)m.p)[i] = {flush(v.x), flush(v.y)};
  else
    ((uint32_t*)m.p)[i] = narrow(v.x) | (uint32_t)narrow(v.y) << 16;
}
DEV Pair pair_at(const Mat& m, i64 r, int c) { return pair_at(m.p, m.type, r * m.stride + c); }
DEV Pair plus(Pair a, Pair b) { return {add(a.x, b.x), add(a.y, b.y)}; }

// finish_four is finish for two pairs of a row, at n and n + step: what does not depend on the element is
// found out once. Elements beyond the row's end are left out.
CALLED void finish_four(const ProductArgs& a, i64 m, int n, int step, float v0, float v1, float v2, float v3) {
  Pair v[2] = {{v0, v1}, {v2, v3}};
  if (!a.paired) {
    UNROLL for (int i = 0; i < 2; i++) {
      if (n + i * step < a.n) finish(a, m, n + i * step, v[i].x);
      if (n + i * step + 1 < a.n) finish(a, m, n + i * step + 1, v[i].y);
    }
    return;
  }
  i64 sample = a.gate.p ? (uint32_t)m / (uint32_t)a.gate_rows : 0;
  UNROLL for (int i = 0; i < 2; i++, n += step) {
    if (n >= a.n) return;
    Pair x = v[i];
    if (a.bias.p) x = plus(x, pair_at(a.bias.p, a.bias.type, n));
    if (a.pre.p) put_pair(a.pre, m, n, x);
    if (a.act) x = {activate(a.act, x.x), activate(a.act, x.y)};
    if (a.gate.p) {
      Pair g = pair_at(a.gate, sample, n);
      x = {mul(x.x, g.x), mul(x.y, g.y)};
    }
    if (a.residual.p) x = plus(x, pair_at(a.residual, m, n));
    if (a.accumulate && !a.fold) x = plus(x, pair_at(a.c, m, n));
    put_pair(a.c, m, n, x);
  }
}
