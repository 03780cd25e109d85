// rows.cu: what normalises, weighs or looks up rows. One warp a row, four rows a block; sums
// follow the tree of ref/sum.go. Gradients over the rows of a sample are one thread a column.
#include "functions.h"

DEV i64 warp_row() { return (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }
DEV i64 sample_of(i64 row, i64 per) { return per > 0 ? row / per : 0; }
// one is the argument at column c of a parameter that may be absent.

struct NormArgs {
  Mat x, y;
  Vec weight, bias;
  Mat scale, shift;
  Vec mean, rstd;
  Mat dy, dx;
  Vec dweight, dbias;
  Mat dscale, dshift;
  i64 per;
  float eps, inv;
  int layer, pad;
};
DEV float weighted(const NormArgs& a, int c, float n) {
  if (a.weight.p && a.bias.p) return fma_(n, at(a.weight, c), at(a.bias, c));
  if (a.weight.p) return mul(n, at(a.weight, c));
  if (a.bias.p) return add(n, at(a.bias, c));
  return n;
}
DEV float modulated(const NormArgs& a, i64 s, int c, float n) {
  if (a.scale.p && a.shift.p) return fma_(n, add(1, at(a.scale, s, c)), at(a.shift, s, c));
  if (a.scale.p) return mul(n, add(1, at(a.scale, s, c)));
  if (a.shift.p) return add(n, at(a.shift, s, c));
  return n;
}
KERNEL(norm, NormArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, lane = threadIdx.x & 31;
  float mean = 0;
  if (a.layer) mean = mul(warp_sum(cols, [&](int i, float s) { return add(s, at(a.x, r, i)); }), a.inv);
  float square = warp_sum(cols, [&](int i, float s) {
    float d = at(a.x, r, i);
    if (a.layer) d = sub(d, mean);
    return fma_(d, d, s);
  });
  float rstd = quotient(1, root(add(mul(square, a.inv), a.eps)));
  i64 s = sample_of(r, a.per);
  for (int c = lane; c < cols; c += 32) {
    float v = at(a.x, r, c);
    if (a.layer) v = sub(v, mean);
    put(a.y, r, c, modulated(a, s, c, weighted(a, c, mul(v, rstd))));
  }
  if (lane == 0 && a.mean.p && a.layer) ((float*)a.mean.p)[r] = mean;
  if (lane == 0 && a.rstd.p) ((float*)a.rstd.p)[r] = rstd;
}

// The normalised element, from the forward's statistics.
DEV float normalised(const NormArgs& a, i64 r, int c) {
  float v = at(a.x, r, c);
  if (a.layer) v = sub(v, ((const float*)a.mean.p)[r]);
  return mul(v, ((const float*)a.rstd.p)[r]);
}
KERNEL(norm_backward, NormArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  i64 s = sample_of(r, a.per);
  auto g = [&](int c) {
    float d = at(a.dy, r, c);
    if (a.scale.p) d = mul(d, add(1, at(a.scale, s, c)));
    if (a.weight.p) d = mul(d, at(a.weight, c));
    return d;
  };
  float c2 = mul(warp_sum(cols, [&](int i, float t) { return fma_(g(i), normalised(a, r, i), t); }), a.inv), c1 = 0;
  if (a.layer) c1 = mul(warp_sum(cols, [&](int i, float t) { return add(t, g(i)); }), a.inv);
  float rstd = ((const float*)a.rstd.p)[r];
  for (int c = threadIdx.x & 31; c < cols; c += 32) {
    float d = g(c), n = normalised(a, r, c);
    if (a.layer) d = sub(d, c1);
    put(a.dx, r, c, mul(fma_(-n, c2, d), rstd));
  }
}
// Sums over the rows of a sample, one thread a column. The grid's y is the sample, for what
// belongs to a sample; or 1, and the samples are added in order, for what belongs to all.
struct Sums { float weight, bias, scale, shift; };
DEV Sums column(const NormArgs& a, i64 s, int c) {
  i64 per = a.per > 0 ? a.per : a.x.rows, end = (s + 1) * per < a.x.rows ? (s + 1) * per : a.x.rows;
  Sums t = {0, 0, 0, 0};
  for (i64 r = s * per; r < end; r++) {
    float d = at(a.dy, r, c), n = normalised(a, r, c);
    t.shift = add(t.shift, d);
    t.scale = fma_(d, weighted(a, c, n), t.scale);
    if (a.scale.p) d = mul(d, add(1, at(a.scale, s, c)));
    t.weight = fma_(d, n, t.weight);
    t.bias = add(t.bias, d);
  }
  return t;
}
KERNEL(norm_backward_modulation, NormArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  Sums t = column(a, blockIdx.y, (int)c);
  if (a.dscale.p) put(a.dscale, blockIdx.y, (int)c, t.scale);
  if (a.dshift.p) put(a.dshift, blockIdx.y, (int)c, t.shift);
}
KERNEL(norm_backward_weights, NormArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  i64 samples = a.per > 0 ? (a.x.rows + a.per - 1) / a.per : a.x.rows > 0;
  for (i64 s = 0; s < samples; s++) {
    Sums t = column(a, s, (int)c);
    if (a.dweight.p) put(a.dweight, c, add(at(a.dweight, c), t.weight));
    if (a.dbias.p) put(a.dbias, c, add(at(a.dbias, c), t.bias));
  }
}

struct SoftmaxArgs { Mat x, dy, y; };  // backward: x is Y, y is DX
KERNEL(softmax, SoftmaxArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  float m = warp_largest(cols, [&](int i) { return at(a.x, r, i); });
  float sum = warp_sum(cols, [&](int i, float s) { return add(s, exp_(sub(at(a.x, r, i), m))); });
  float inv = quotient(1, sum);
  for (int c = threadIdx.x & 31; c < cols; c += 32) put(a.y, r, c, mul(exp_(sub(at(a.x, r, c), m)), inv));
}
KERNEL(softmax_backward, SoftmaxArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  float s = warp_sum(cols, [&](int i, float t) { return fma_(at(a.x, r, i), at(a.dy, r, i), t); });
  for (int c = threadIdx.x & 31; c < cols; c += 32) put(a.y, r, c, mul(at(a.x, r, c), sub(at(a.dy, r, c), s)));
}

struct GatherArgs {
  Mat x, dx;
  const int* index;
  float *out, *lse, *entropy;
  const float* dout;
  float inv;
  int pad;
};
DEV float scaled(const GatherArgs& a, i64 r, int c) {
  float z = at(a.x, r, c);
  return a.inv == 1 ? z : mul(z, a.inv);
}
KERNEL(log_softmax_gather, GatherArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, lane = threadIdx.x & 31;
  float m = warp_largest(cols, [&](int i) { return scaled(a, r, i); });
  float s = warp_sum(cols, [&](int i, float t) { return add(t, exp_(sub(scaled(a, r, i), m))); });
  float lse = add(m, log_(s));
  if (lane == 0 && a.lse) a.lse[r] = lse;
  if (lane == 0 && a.out) {
    int i = a.index[r];
    a.out[r] = i >= 0 ? sub(scaled(a, r, i), lse) : 0;
  }
  if (!a.entropy) return;
  float h = warp_sum(cols, [&](int i, float t) {
    float z = scaled(a, r, i), e = exp_(sub(z, m));
    return fma_(e, e == 0 ? 0 : z, t);
  });
  if (lane == 0) a.entropy[r] = sub(lse, mul(h, quotient(1, s)));
}
KERNEL(log_softmax_gather_backward, GatherArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, index = a.index[r];
  float d = index < 0 ? 0 : mul(flush(a.dout[r]), a.inv);
  for (int c = threadIdx.x & 31; c < cols; c += 32) {
    float z = 0;
    if (index >= 0) {
      z = mul(-d, exp_(sub(scaled(a, r, c), a.lse[r])));
      if (c == index) z = add(d, z);
    }
    put(a.dx, r, c, z);
  }
}

struct EmbeddingArgs { Mat table, y; const int* index; };
KERNEL(embedding, EmbeddingArgs, 256) {
  i64 total = (i64)a.y.rows * a.y.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r = i / a.y.cols;
    int c = (int)(i % a.y.cols);
    put(a.y, r, c, at(a.table, a.index[r], c));
  }
}
KERNEL(embedding_backward, EmbeddingArgs, 128) {  // y is DY; one thread a column, rows in order
  i64 c = thread_index();
  if (c >= a.y.cols) return;
  for (i64 r = 0; r < a.y.rows; r++) {
    i64 to = a.index[r];
    put(a.table, to, (int)c, add(at(a.table, to, (int)c), at(a.y, r, (int)c)));
  }
}

// Modulate, Gated and GLU. b is the scale, the residual or the gate's half; g the shift or the gate.
struct MixArgs { Mat x, y, b, g, dy, dx, db, dg; i64 per; int op, pad; };
KERNEL(modulate, MixArgs, 256) {
  i64 total = (i64)a.x.rows * a.x.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r = i / a.x.cols, s = r / a.per;
    int c = (int)(i % a.x.cols);
    put(a.y, r, c, fma_(at(a.x, r, c), add(1, at(a.b, s, c)), at(a.g, s, c)));
  }
}
KERNEL(gate, MixArgs, 256) {
  i64 total = (i64)a.x.rows * a.x.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r = i / a.x.cols;
    int c = (int)(i % a.x.cols);
    put(a.y, r, c, fma_(at(a.x, r, c), at(a.g, r / a.per, c), at(a.b, r, c)));
  }
}
// The gradient at x, and the sums over each sample's rows: the grid's y is the sample.
KERNEL(modulate_backward, MixArgs, 128) {
  i64 c = thread_index(), s = blockIdx.y, end = (s + 1) * a.per < a.dy.rows ? (s + 1) * a.per : a.dy.rows;
  if (c >= a.dy.cols) return;
  float scale = add(1, at(a.b, s, (int)c)), db = 0, dg = 0;
  for (i64 r = s * a.per; r < end; r++) {
    float d = at(a.dy, r, (int)c);
    dg = add(dg, d);
    db = fma_(d, at(a.x, r, (int)c), db);
    if (a.dx.p) put(a.dx, r, (int)c, mul(d, scale));
  }
  if (a.db.p) put(a.db, s, (int)c, db);
  if (a.dg.p) put(a.dg, s, (int)c, dg);
}
KERNEL(gate_backward, MixArgs, 128) {
  i64 c = thread_index(), s = blockIdx.y, end = (s + 1) * a.per < a.dy.rows ? (s + 1) * a.per : a.dy.rows;
  if (c >= a.dy.cols) return;
  float g = at(a.g, s, (int)c), dg = 0;
  for (i64 r = s * a.per; r < end; r++) {
    float d = at(a.dy, r, (int)c);
    dg = fma_(d, at(a.x, r, (int)c), dg);
    if (a.dx.p) put(a.dx, r, (int)c, mul(d, g));
  }
  if (a.dg.p) put(a.dg, s, (int)c, dg);
}
KERNEL(glu, MixArgs, 256) {
  i64 total = (i64)a.x.rows * a.x.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r = i / a.x.cols;
    int c = (int)(i % a.x.cols);
    put(a.y, r, c, mul(at(a.x, r, c), activate(a.op, at(a.g, r, c))));
  }
}
KERNEL(glu_backward, MixArgs, 256) {
  i64 total = (i64)a.dy.rows * a.dy.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r = i / a.dy.cols;
    int c = (int)(i % a.dy.cols);
    float d = at(a.dy, r, c), x = at(a.x, r, c), g = at(a.g, r, c);
    if (a.dx.p) put(a.dx, r, c, mul(d, activate(a.op, g)));
    if (a.dg.p) put(a.dg, r, c, mul(mul(d, x), activate_grad(a.op, g)));
  }
}

struct RopeArgs { Heads x, y; Mat cos, sin; int halves, inverse; };
KERNEL(rope, RopeArgs, 256) {  // one thread a pair, and the rest of a head's elements as they are
  int half = a.cos.cols, rest = a.x.d - 2 * half, each = half + rest;
  i64 total = (i64)a.x.b * a.x.s * a.x.h * each;
  for (i64 k = thread_index(); k < total; k += thread_count()) {
    int i = (int)(k % each), h = (int)(k / each % a.x.h);
    i64 t = k / each / a.x.h;
    int b = (int)(t / a.x.s), s = (int)(t % a.x.s);
    i64 from = head(a.x, b, s, h), to = head(a.y, b, s, h);
    if (i >= half) {
      int c = 2 * half + i - half;
      store(a.y.p, a.y.type, to + c, load(a.x.p, a.x.type, from + c));
      continue;
    }
    i64 row = a.cos.rows > a.x.s ? t : s;
    int p = a.halves ? i : 2 * i, q = a.halves ? i + half : 2 * i + 1;
    float u = load(a.x.p, a.x.type, from + p), v = load(a.x.p, a.x.type, from + q), c = at(a.cos, row, i), sn = at(a.sin, row, i);
    if (a.inverse) sn = -sn;
    store(a.y.p, a.y.type, to + p, fma_(u, c, -mul(v, sn)));
    store(a.y.p, a.y.type, to + q, fma_(v, c, mul(u, sn)));
  }
}

// Reductions: a warp a row in float64; columns by a thread each.
struct ReduceArgs { Mat x, y; double* out; int op, pad; };
KERNEL(reduce, ReduceArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  double t;
  if (a.op == 3) {
    // The largest magnitude as bits: a NaN is above every number.
    uint32_t m = 0;
    for (int i = threadIdx.x & 31; i < cols; i += 32) {
      uint32_t v = bits(at(a.x, r, i)) & 0x7fffffffu;
      if (v > m) m = v;
    }
    for (int d = 16; d; d >>= 1) {
      uint32_t v = __shfl_xor_sync(ALL, m, d);
      if (v > m) m = v;
    }
    t = (double)from_bits(m);
  } else
    t = warp_sum64(cols, [&](i64 i) {
      float x = at(a.x, r, (int)i);
      return a.op == 0 ? x : mul(x, a.op == 1 ? x : at(a.y, r, (int)i));
    });
  if ((threadIdx.x & 31) == 0) a.out[r] = t;
}

struct SumRowsArgs { Mat x; float* out; const i64* segments; i64 count; int accumulate, pad; };
KERNEL(sum_rows, SumRowsArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  float out = a.accumulate ? a.out[c] : 0;
  i64 r = 0;
  for (i64 k = 0; k < a.count; k++) {
    float sum = 0;
    for (i64 n = a.segments ? a.segments[k] : a.x.rows; n > 0; n--, r++) sum = add(sum, at(a.x, r, (int)c));
    out = add(out, sum);
  }
  a.out[c] = out;
}

// One row of a solver, a warp a sample. The coefficients of sample s: coef[s*stride] is A, then
// C, then one for each output.
const int OUTPUTS = 12;
struct SolverArgs {
  Mat x, noise, next, mean;
  Mat out[OUTPUTS];
  const float* coef;
  double* square;
  int outputs, given;
};
KERNEL(solver, SolverArgs, 128) {
  i64 s = warp_row();
  if (s >= a.x.rows) return;
  const float* k = a.coef + s * (2 + a.outputs);
  double t = warp_sum64(a.x.cols, [&](i64 i) {
    int c = (int)i;
    float mean = mul(k[0], at(a.x, s, c));
    for (int o = 0; o < a.outputs; o++) mean = fma_(k[2 + o], at(a.out[o], s, c), mean);
    if (a.mean.p) put(a.mean, s, c, mean);
    float next = mean;
    if (a.given)
      next = at(a.next, s, c);
    else if (a.noise.p)
      next = fma_(k[1], at(a.noise, s, c), mean);
    if (!a.given && a.next.p) put(a.next, s, c, next);
    float d = sub(next, mean);
    return mul(d, d);
  });
  if (a.square && (threadIdx.x & 31) == 0) a.square[s] = t;
}
