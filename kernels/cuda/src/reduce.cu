// reduce.cu: sums over rows and columns, and a solver's row with its sum of squares.
#include "pieces.h"

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
    t = row_sum64(cols, [&](i64 i) { return Two{raw(a.x, r, (int)i), a.op == 2 ? raw(a.y, r, (int)i) : 0}; }, [&](const Two& u, i64) {
      float x = value(u.x, a.x.type);
      return a.op == 0 ? x : mul(x, a.op == 1 ? x : value(u.y, a.y.type));
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
    i64 end = r + (a.segments ? a.segments[k] : a.x.rows);
    ahead<16>(r, end, [&](i64 r) { return raw(a.x, r, (int)c); }, [&](i64, uint32_t u) { sum = add(sum, value(u, a.x.type)); });
    r = end;
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
