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
