// groupnorm.cu: statistics and gradients of a group norm, in the blocks and the order of
// ref/moments.go and ref/groupnorm.go: fp32 within a block of pixels, one thread a channel;
// float64 over channels and blocks.
#include "pieces.h"

struct GroupNormArgs {
  void *x, *y, *dy, *dx;
  Vec weight, bias;
  float *mean, *rstd;    // [n, groups]
  float *dweight, *dbias;
  float* part;           // [n, blocks, 2, c]: sums of a block of pixels
  double* total;         // moments: [n, blocks, groups, 2]; gradient: [n, 2, c]
  float* terms;          // gradient: [n, groups, 2]
  i64 n, hw, c, groups, block, blocks;
  float eps;
  int act, x_type, y_type, dy_type, dx_type;
};
// The grid is (channels, blocks of pixels, samples), but blocks may be many: x holds both.
DEV bool place(const GroupNormArgs& a, i64* n, i64* b, i64* c) {
  i64 k = thread_index();
  i64 left;
  split(k, a.c, &left, c), split(left, a.blocks, n, b);
  return k < a.n * a.blocks * a.c;
}
KERNEL(group_moments, GroupNormArgs, 128) {
  i64 n, b, c;
  if (!place(a, &n, &b, &c)) return;
  i64 lo = b * a.block, hi = lo + a.block < a.hw ? lo + a.block : a.hw;
  float middle = load(a.x, a.x_type, (n * a.hw + lo + (hi - lo) / 2) * a.c + c), s = 0, q = 0;
  ahead<16>(lo, hi, [&](i64 p) { return raw(a.x, a.x_type, (n * a.hw + p) * a.c + c); }, [&](i64, uint32_t u) {
    float d = sub(value(u, a.x_type), middle);
    s = add(s, d), q = fma_(d, d, q);
  });
  float* to = a.part + (n * a.blocks + b) * 2 * a.c;
  to[c] = s, to[a.c + c] = q;
}
KERNEL(group_blocks, GroupNormArgs, 128) {
  i64 k = thread_index();
  if (k >= a.n * a.blocks * a.groups) return;
  i64 g = k % a.groups, b = k / a.groups % a.blocks, n = k / a.groups / a.blocks, per = a.c / a.groups;
  i64 lo = b * a.block, hi = lo + a.block < a.hw ? lo + a.block : a.hw, middle = lo + (hi - lo) / 2;
  double first = load(a.x, a.x_type, n * a.hw * a.c + g * per), sum = 0, square = 0, count = (double)(hi - lo);
  const float* from = a.part + (n * a.blocks + b) * 2 * a.c;
  for (i64 c = g * per; c < (g + 1) * per; c++) {
    double y = __dadd_rn((double)load(a.x, a.x_type, (n * a.hw + middle) * a.c + c), -first);
    double s = from[c], ny = __dmul_rn(count, y);
    sum = __dadd_rn(sum, __dadd_rn(s, ny));
    square = __dadd_rn(square, __dadd_rn((double)from[a.c + c], __dmul_rn(y, __dadd_rn(__dadd_rn(s, s), ny))));
  }
  a.total[2 * k] = sum, a.total[2 * k + 1] = square;
}
KERNEL(group_statistics, GroupNormArgs, 128) {
  i64 k = thread_index();
  if (k >= a.n * a.groups) return;
  i64 g = k % a.groups, n = k / a.groups;
  double sum = 0, square = 0, count = (double)(a.hw * (a.c / a.groups));
  struct Moments { double sum, square; };
  ahead<16>(0, a.blocks, [&](i64 b) {
    const double* m = a.total + 2 * ((n * a.blocks + b) * a.groups + g);
    return Moments{m[0], m[1]};
  }, [&](i64, const Moments& m) { sum = __dadd_rn(sum, m.sum), square = __dadd_rn(square, m.square); });
  double d = __ddiv_rn(sum, count), first = load(a.x, a.x_type, n * a.hw * a.c + g * (a.c / a.groups));
  float mean = flush((float)__dadd_rn(first, d)), variance = flush((float)__dadd_rn(__ddiv_rn(square, count), -__dmul_rn(d, d)));
  a.mean[k] = mean, a.rstd[k] = quotient(1, root(add(variance, a.eps)));
}
// Where an element lies: its sample and channel.
struct Pixel { i64 n, c; };
DEV Pixel pixel_of(const GroupNormArgs& a, i64 i) {
  i64 pixel, c;
  split(i, a.c, &pixel, &c);
  return {split(pixel, a.hw), c};
}
DEV i64 group_of(const GroupNormArgs& a, i64 n, i64 c) { return n * a.groups + split(c, a.c / a.groups); }

// The value before the activation.
DEV float before(const GroupNormArgs& a, i64 n, i64 c, float x) {
  i64 k = group_of(a, n, c);
  float r = a.rstd[k];
  if (a.weight.p) r = mul(r, at(a.weight, c));
  return fma_(sub(x, a.mean[k]), r, a.bias.p ? at(a.bias, c) : 0);
}
template <int W> DEV void group_apply_to(const GroupNormArgs& a) {
  each<W>(a.n * a.hw * a.c, [&](i64 i) {
    Pixel at = pixel_of(a, i);
    float x[W];
    get(x, a.x, a.x_type, i);
    UNROLL for (int e = 0; e < W; e++) x[e] = activate(a.act, before(a, at.n, at.c + e, x[e]));
    set(a.y, a.y_type, i, x);
  });
}
// A thread has eight channels, and goes from pixel to pixel: what belongs to a channel is found out once a sample.
DEV void group_apply_channels(const GroupNormArgs& a) {
  int across = (int)a.c / 8, rows = blockDim.x / across, row = threadIdx.x / across, c = threadIdx.x % across * 8;
  if (row >= rows) return;
  i64 sample = -1;
  float mean[8], slope[8], bias[8];
  for (i64 p = (i64)blockIdx.x * rows + row; p < a.n * a.hw; p += (i64)gridDim.x * rows) {
    i64 n = split(p, a.hw);
    if (n != sample) UNROLL for (int e = 0; e < 8; e++) {
      i64 k = group_of(a, n, c + e);
      sample = n, mean[e] = a.mean[k], slope[e] = a.weight.p ? mul(a.rstd[k], at(a.weight, c + e)) : a.rstd[k];
      bias[e] = a.bias.p ? at(a.bias, c + e) : 0;
    }
    float x[8];
    get_as_is(x, a.x, a.x_type, p * a.c + c);
    UNROLL for (int e = 0; e < 8; e++) x[e] = activate(a.act, fma_(sub(x[e], mean[e]), slope[e], bias[e]));
    set(a.y, a.y_type, p * a.c + c, x);
  }
}
KERNEL(group_apply, GroupNormArgs, 256) {
  if (a.c % 8 == 0 && a.c <= 2048 && wide(a.x, a.y))
    group_apply_channels(a);
  else
    group_apply_to<1>(a);
}

DEV float group_slope(const GroupNormArgs& a, i64 n, i64 c, float x, float d) {
  return a.act == IDENTITY ? d : mul(d, activate_grad(a.act, before(a, n, c, x)));
}
DEV float group_normal(const GroupNormArgs& a, i64 n, i64 c, float x) {
  i64 k = group_of(a, n, c);
  return mul(sub(x, a.mean[k]), a.rstd[k]);
}
KERNEL(group_slopes, GroupNormArgs, 128) {
  i64 n, b, c;
  if (!place(a, &n, &b, &c)) return;
  i64 lo = b * a.block, hi = lo + a.block < a.hw ? lo + a.block : a.hw;
  float s1 = 0, s2 = 0;
  ahead<8>(lo, hi, [&](i64 p) {
    i64 i = (n * a.hw + p) * a.c + c;
    return Two{raw(a.x, a.x_type, i), raw(a.dy, a.dy_type, i)};
  }, [&](i64, const Two& u) {
    float x = value(u.x, a.x_type), d = group_slope(a, n, c, x, value(u.y, a.dy_type));
    s1 = add(s1, d), s2 = fma_(d, group_normal(a, n, c, x), s2);
  });
  float* to = a.part + (n * a.blocks + b) * 2 * a.c;
  to[c] = s1, to[a.c + c] = s2;
}
KERNEL(group_channels, GroupNormArgs, 128) {  // one thread a channel of a sample: over blocks, in order
  i64 k = thread_index();
  if (k >= a.n * a.c) return;
  i64 c = k % a.c, n = k / a.c;
  double s1 = 0, s2 = 0;
  for (i64 b = 0; b < a.blocks; b++) {
    const float* from = a.part + (n * a.blocks + b) * 2 * a.c;
    s1 = __dadd_rn(s1, (double)from[c]), s2 = __dadd_rn(s2, (double)from[a.c + c]);
  }
  a.total[n * 2 * a.c + c] = s1, a.total[n * 2 * a.c + a.c + c] = s2;
}
KERNEL(group_weights, GroupNormArgs, 128) {  // one thread a channel: over samples, in order
  i64 c = thread_index();
  if (c >= a.c) return;
  for (i64 n = 0; n < a.n; n++) {
    const double* s = a.total + n * 2 * a.c;
    if (a.dbias) a.dbias[c] = add(a.dbias[c], flush((float)s[c]));
    if (a.dweight) a.dweight[c] = add(a.dweight[c], flush((float)s[a.c + c]));
  }
}
KERNEL(group_terms, GroupNormArgs, 128) {
  i64 k = thread_index();
  if (k >= a.n * a.groups) return;
  i64 g = k % a.groups, n = k / a.groups, per = a.c / a.groups;
  double m1 = 0, m2 = 0, count = (double)(a.hw * per);
  const double* s = a.total + n * 2 * a.c;
  for (i64 c = g * per; c < (g + 1) * per; c++) {
    double w = a.weight.p ? at(a.weight, c) : 1.0f;
    m1 = __dadd_rn(m1, __dmul_rn(w, s[c])), m2 = __dadd_rn(m2, __dmul_rn(w, s[a.c + c]));
  }
  a.terms[2 * k] = flush((float)__ddiv_rn(m1, count)), a.terms[2 * k + 1] = flush((float)__ddiv_rn(m2, count));
}
template <int W> DEV void group_back(const GroupNormArgs& a) {
  each<W>(a.n * a.hw * a.c, [&](i64 i) {
    Pixel p = pixel_of(a, i);
    float x[W], d[W];
    get(x, a.x, a.x_type, i), get(d, a.dy, a.dy_type, i);
    UNROLL for (int e = 0; e < W; e++) {
      i64 c = p.c + e, k = group_of(a, p.n, c);
      float g = mul(group_slope(a, p.n, c, x[e], d[e]), a.weight.p ? at(a.weight, c) : 1);
      d[e] = mul(fma_(-group_normal(a, p.n, c, x[e]), a.terms[2 * k + 1], sub(g, a.terms[2 * k])), a.rstd[k]);
    }
    set(a.dx, a.dx_type, i, d);
  });
}
KERNEL(group_backward, GroupNormArgs, 256) {
  if (a.c % 8 == 0 && wide(a.x, a.dy, a.dx))
    group_back<8>(a);
  else
    group_back<1>(a);
}
