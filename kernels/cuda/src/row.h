// row.h: rows that are kept while they are added up, as numbers. Their sums are those of row_sum (pieces.h), bit for
// bit: 64 of them, element i in sum i mod 64, and then their tree; only which lane has which sum differs.
//
// A long row is that of one or several warps, in shared memory: lane l of each has the sums 2l and 2l+1. A short row is that of eight lanes, in
// registers: lane l has the pieces of 8 elements l and l + 8, and so the sums 8l to 8l+7.
//
// Denormals are left to the arithmetic (get_as_is).
#pragma once
#include "pieces.h"

// Eight elements of a row as they came from memory.
struct Brought { Piece a, b; };
DEV Brought read_piece(const Mat& m, i64 r, int c) {
  if (m.type != F32) return {*(const Piece*)((const uint16_t*)m.p + r * m.stride + c), {}};
  const Piece* p = (const Piece*)((const float*)m.p + r * m.stride + c);
  return {p[0], p[1]};
}
DEV void numbers(float (&v)[8], const Brought& u, int type) {
  UNROLL for (int e = 0; e < 4; e++)
    if (type == F32)
      v[e] = from_bits(u.a.w[e]), v[4 + e] = from_bits(u.b.w[e]);
    else
      v[2 * e] = from_bits(u.a.w[e] << 16), v[2 * e + 1] = from_bits(u.a.w[e] & 0xffff0000u);
}

// LongRow is the part that a thread has in one: 4 / a block of them, the threads of each. A block's last rows may be
// none: they do as the last one does, and write nothing.
struct LongRow {
  i64 r;
  int threads, first, number;  // of the row; this thread's first column; which row of the block
  bool live;
  MEMBER LongRow(int warps, i64 rows) : threads(32 * warps) {
    number = threadIdx.x / threads, first = threadIdx.x % threads * 8;
    r = (i64)blockIdx.x * (blockDim.x / threads) + number;
    live = r < rows;
    if (!live) r = rows - 1;
  }
};
// pieces calls use(c, read(c)) for a thread's pieces of a row: some are read before the first is used.
template <class R, class U> DEV void pieces(const LongRow& row, int cols, R read, U use) {
  const int AHEAD = 6;
  int step = row.threads * 8;
  for (int c = row.first; c < cols; c += AHEAD * step) {
    decltype(read(c)) x[AHEAD];
    UNROLL for (int k = 0; k < AHEAD; k++) if (c + k * step < cols) x[k] = read(c + k * step);
    UNROLL for (int k = 0; k < AHEAD; k++) if (c + k * step < cols) use(c + k * step, x[k]);
  }
}

struct alignas(16) Floats4 { float x[4]; };
struct alignas(8) Floats2 { float x, y; };
DEV void lay(float* row, int c, const float (&v)[8]) {
  *(Floats4*)(row + c) = {v[0], v[1], v[2], v[3]}, *(Floats4*)(row + c + 4) = {v[4], v[5], v[6], v[7]};
}
DEV void take(float (&v)[8], const float* row, int c) {
  Floats4 x = *(const Floats4*)(row + c), y = *(const Floats4*)(row + c + 4);
  UNROLL for (int e = 0; e < 4; e++) v[e] = x.x[e], v[4 + e] = y.x[e];
}

DEV float couple_tree(float x, float y) {
  x = add(x, __shfl_xor_sync(ALL, x, 8)), y = add(y, __shfl_xor_sync(ALL, y, 8));
  x = add(x, __shfl_xor_sync(ALL, x, 16)), y = add(y, __shfl_xor_sync(ALL, y, 16));
  for (int d = 4; d; d >>= 1) x = add(x, __shfl_xor_sync(ALL, x, d)), y = add(y, __shfl_xor_sync(ALL, y, d));
  return add(x, y);
}
// laid_sum adds up a long row: f(element, sum) is the sum with it added. laid_sum2 is of two rows.
template <class F> DEV float laid_sum(const float* row, int cols, F f) {
  float x = 0, y = 0;
  UNROLL_BY(8) for (int c = (threadIdx.x & 31) * 2; c < cols; c += 64) {
    Floats2 u = *(const Floats2*)(row + c);
    x = f(u.x, x), y = f(u.y, y);
  }
  return couple_tree(x, y);
}
template <class F> DEV float laid_sum2(const float* row, const float* other, int cols, F f) {
  float x = 0, y = 0;
  UNROLL_BY(8) for (int c = (threadIdx.x & 31) * 2; c < cols; c += 64) {
    Floats2 u = *(const Floats2*)(row + c), v = *(const Floats2*)(other + c);
    x = f(u.x, v.x, x), y = f(u.y, v.y, y);
  }
  return couple_tree(x, y);
}

// Short rows have at most SHORT pieces a lane. All lanes of a warp come along: live says that there is a row.
const int SHORT = 2;
DEV i64 short_row() { return thread_index() / 8; }
template <class F> DEV void short_pieces(bool live, int lane, int cols, F f) {
  UNROLL for (int k = 0; k < SHORT; k++) {
    int c = (k * 8 + lane) * 8;
    if (live && c < cols) f(k, c);
  }
}
DEV float short_tree(float (&t)[8]) {
  UNROLL for (int e = 0; e < 8; e++) {
    t[e] = add(t[e], __shfl_xor_sync(ALL, t[e], 2));
    t[e] = add(t[e], __shfl_xor_sync(ALL, t[e], 4));
    t[e] = add(t[e], __shfl_xor_sync(ALL, t[e], 1));
  }
  UNROLL for (int h = 4; h; h >>= 1)
    UNROLL for (int e = 0; e < h; e++) t[e] = add(t[e], t[e + h]);
  return t[0];
}
