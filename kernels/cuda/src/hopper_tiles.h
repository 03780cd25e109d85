// hopper_tiles.h: what the kernels of hopper_attention.cu, hopper_backward.cu and hopper_product.cu share: tiles of rows in
// shared memory, products of a warpgroup with them, fragments of results to memory.
#pragma once
#include "hopper.h"

struct HopperArgs {
  TensorMap q, k, v, dout;  // one box is one tile; how many rows it has is the kernel's
  AttentionArgs a;
};

// Warpgroup 0 brings tiles; GROUPS others have 64 rows each. A block starts with as many registers a thread as fit (168, or
// 128), and what changes hands must add up: 24 + 2·240 = 3·168, 32 + 3·160 = 4·128.
template <int GROUPS> struct Roles {
  static const int THREADS = 128 * (GROUPS + 1), ROWS = 64 * GROUPS, TAKE = GROUPS == 2 ? 240 : 160, GIVE = GROUPS == 2 ? 24 : 32;
};
DEV int crew() { return uniform(threadIdx.x / 128) - 1; }            // which of the others
DEV int crew_warp() { return threadIdx.x % 128 / 32 * 16; }  // a warp's first row among the 64

// tiles_start is the first multiple of 1024 in the block's shared memory.
DEV uint32_t tiles_start() {
  SHARED(unsigned char, all);
  return (shared_address(all) + 1023) & ~1023u;
}

template <int D, int ROWS> DEV void bring_rows(uint32_t to, const TensorMap* map, uint32_t bar, int h, int s, int b) {
  UNROLL for (int x = 0; x < D; x += 64) bring(to + x / 64 * ROWS * 128, map, bar, x, h, s, b);
}
// clear_rows blanks rows from first on, by THREADS threads of which this is number t; they meet.
template <int D, int ROWS, int THREADS> DEV void clear_rows(uint32_t tile, int first, int t, int meeting) {
  int pieces = (ROWS - first) * 8;
  for (int e = t; e < pieces * (D / 64); e += THREADS) clear16(tile + e / pieces * ROWS * 128 + first * 128 + e % pieces * 16);
  publish();
  meet(meeting, THREADS);
}
// released says that this warp needs a tile no more.
DEV void released(uint32_t bar) {
  if ((threadIdx.x & 31) == 0) arrive(bar);
}

// released_by_lanes is released where lanes have read from the tile by themselves: all have, before one says so.
DEV void released_by_lanes(uint32_t bar) {
  __syncwarp();
  released(bar);
}

// pairs: s = 64 own rows (of a tile of OWN rows, from row0 on) times N others, over D.
template <int D, int OWN_ROWS, int N> DEV void own_times_rows(float (&s)[N / 8][4], uint32_t own, int row0, uint32_t others) {
  uint32_t a = by_rows(own + row0 * 128), b = by_rows(others);
  products_begin();
  UNROLL for (int k = 0; k < D / 16; k++) multiply_rows<N>(s, moved(a, k / 4 * OWN_ROWS * 128 + k % 4 * 32), moved(b, k / 4 * N * 128 + k % 4 * 32), k == 0);
  products_end();
}
// mixed: o += weights (64 x N, held) times N rows of a tile.
template <int D, int N> DEV void held_times_columns(float (&o)[D / 8][4], const uint32_t (&w)[N / 16][4], uint32_t rows) {
  uint32_t b = turned(rows, N * 128);
  products_begin();
  UNROLL for (int k = 0; k < N / 16; k++) multiply_held<D>(o, w[k], moved(b, k * 2048));
  products_end();
}
// pack_weights rounds a warpgroup's fragments to bf16, as the left side of a product has them.
template <int N> DEV void pack_weights(uint32_t (&w)[N / 16][4], const float (&s)[N / 8][4]) {
  UNROLL for (int k = 0; k < N / 16; k++) {
    const float *u = s[2 * k], *v = s[2 * k + 1];
    w[k][0] = pack2(u[0], u[1]), w[k][1] = pack2(u[2], u[3]), w[k][2] = pack2(v[0], v[1]), w[k][3] = pack2(v[2], v[3]);
  }
}

