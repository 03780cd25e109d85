// wide.h: rows of a vocabulary.
#pragma once
#include "pieces.h"

// Rows of a vocabulary are a block each. All of its threads work out what is added, in stretches that lie in shared
// memory; 64 of them add it up along the chains of ref/sum.go, while the others go on with the next stretch.
const int WIDE_THREADS = 512, STRETCH = 4096;
struct Term { float x, y; };
template <class T, class F> DEV float wide_sum(int cols, float* room, T term, F f) {
  int t = threadIdx.x;
  float chain = 0;
  for (int from = 0, turn = 0; from < cols; from += STRETCH, turn ^= 1) {
    float *x = room + turn * 2 * STRETCH, *y = x + STRETCH;
    UNROLL_BY(4) for (int i = t; i < STRETCH && from + i < cols; i += WIDE_THREADS) {
      Term u = term(from + i);
      x[i] = u.x, y[i] = u.y;
    }
    __syncthreads();
    if (t < 64) UNROLL_BY(8) for (int i = t; i < STRETCH && from + i < cols; i += 64) chain = f(x[i], y[i], chain);
  }
  __syncthreads();
  if (t < 64) room[t] = chain;
  __syncthreads();
  float sum = tree(room[t & 31], room[32 + (t & 31)]);
  __syncthreads();
  return sum;
}
// block_largest is the largest of what the threads of a block have.
DEV float block_largest(float m, float* room) {
  m = largest_of(m);
  if ((threadIdx.x & 31) == 0) room[threadIdx.x / 32] = m;
  __syncthreads();
  m = largest_of(room[threadIdx.x & (WIDE_THREADS / 32 - 1)]);
  __syncthreads();
  return m;
}
template <class F> DEV float wide_largest(int cols, float* room, F f) {
  float m = -inf();
  UNROLL_BY(8) for (int i = threadIdx.x; i < cols; i += WIDE_THREADS) {
    float v = f(i);
    if (v > m) m = v;
  }
  return block_largest(m, room);
}
