// attention.h: what every kernel of attention takes, and which keys a query sees.
#pragma once
#include "functions.h"

struct AttentionArgs {
  Heads q, k, v, o;
  Heads dout, dq, dk, dv;
  float *lse, *delta;     // [b, h, sq]
  const int* lens;        // [b], or null
  const float* bias;
  i64 bias_b, bias_h, bias_q;
  float* slopes;          // [b, h, sq, sk]: what the bias's gradient is added from
  float* dbias;
  float scale, c;         // c is scale times log2 e
  int causal, parallel;   // parallel: bits 0 to 2: dbias has places of its own for each b, h, q
};

DEV int keys_of(const AttentionArgs& a, int b) {
  int n = a.lens ? a.lens[b] : a.k.s;
  return n < 0 ? 0 : n > a.k.s ? a.k.s : n;
}
DEV int seen_by(const AttentionArgs& a, int n, int i) {
  if (!a.causal) return n;
  int m = i + 1 + a.k.s - a.q.s;
  return m < 0 ? 0 : m < n ? m : n;
}

// Where element e of fragment j lies: its row among the warp's 16, its column.
DEV int fragment_row(int e) { return ((threadIdx.x & 31) >> 2) + (e >> 1) * 8; }
DEV int fragment_col(int j, int e) { return j * 8 + (threadIdx.x & 3) * 2 + (e & 1); }

CALLED void keep_each(const Heads& x, i64 row, int c, float u, float v) {
  if (c < x.d) store(x.p, x.type, row + c, u);
  if (c + 1 < x.d) store(x.p, x.type, row + c + 1, v);
}
// keep_row writes one of a thread's two rows of results, the r-th, to where it starts; zeros where it is dead. Neighbours
// go in one store where all rows are even.
template <int D> DEV void keep_row(const Heads& x, i64 row, int r, bool live, const float (&o)[D / 8][4], float factor) {
  float u[D / 8], v[D / 8];
  UNROLL for (int j = 0; j < D / 8; j++) u[j] = live ? mul(o[j][2 * r], factor) : 0, v[j] = live ? mul(o[j][2 * r + 1], factor) : 0;
  int c = fragment_col(0, 0), left = x.d - c;
  if ((x.sb | x.ss | x.sh | x.d) & 1 || (uint64_t)x.p & 7) {
    UNROLL for (int j = 0; j < D / 8; j++) keep_each(x, row, c + 8 * j, u[j], v[j]);
  } else if (x.type == BF16) {
    uint16_t* to = (uint16_t*)x.p + row + c;
    UNROLL for (int j = 0; j < D / 8; j++)
      if (8 * j < left) *(uint32_t*)(to + 8 * j) = pack2(u[j], v[j]);
  } else {
    float* to = (float*)x.p + row + c;
    UNROLL for (int j = 0; j < D / 8; j++)
      if (8 * j < left) *(uint64_t*)(to + 8 * j) = bits(u[j]) | (uint64_t)bits(v[j]) << 32;
  }
}
// keep_rows writes both, s0 and the eighth after it, where below limit; zeros from live on.
template <int D> DEV void keep_rows(const Heads& x, int b, int h, int s0, int limit, int live, const float (&o)[D / 8][4], const float* factor) {
  UNROLL for (int r = 0; r < 2; r++) {
    int s = s0 + 8 * r;
    if (s < limit) keep_row<D>(x, head(x, b, s, h), r, s < live, o, factor ? factor[r] : 1);
  }
}
