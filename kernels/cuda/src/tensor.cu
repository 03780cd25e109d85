// tensor.cu: products of bf16 on tensor cores (mma.sync). The terms are exact and the sums fp32, in
// an order that is the unit's own within 16 of k and fixed beyond: so results are near those of
// product_bf16, its twin, and a row's bits depend neither on the batch nor on where it stands.
//
// Operands are bf16 with k contiguous; gather makes them so. A block of 8 warps makes 128 x 128
// elements, 64 x 32 a warp, from slices of 32 of k in three stages of shared memory. A slice's rows
// are 64 bytes: four pieces of 16, moved about by (row / 2) % 4 so that no two of eight rows meet in a bank.
#include "product.h"

// gather writes an operand as rows of bf16, each run of k padded with zeros to 32: y[i, starts'[r] + k].
// Tiles of 32 x 32 go through shared memory, so that both sides are read and written along memory.
struct GatherOperandArgs {
  Operand x;
  Window win;
  uint16_t* y;
  i64 row0, rows, k;       // k: of y, a multiple of 32
  const i64* starts;       // where runs start in x, or null: run elements each
  const i64* padded;       // and in y
  i64 run, runs;
};
KERNEL(gather_operand, GatherOperandArgs, 256) {
  SHARED(uint16_t, tile);
  bool by_row = a.x.kind == COLUMNS || a.x.kind == TAPS || a.x.kind == TURNED;
  i64 slices = a.k / 32, i0 = blockIdx.x / slices * 32, p0 = blockIdx.x % slices * 32;
  // The run that this slice belongs to. Slices never span two.
  i64 r = 0, wide = (a.run + 31) / 32 * 32, start, begin, end;
  if (a.starts) {
    while (a.padded[r + 1] <= p0) r++;
    start = a.starts[r], end = a.starts[r + 1], begin = a.padded[r];
  } else {
    r = p0 / wide, start = r * a.run, end = start + a.run, begin = r * wide;
  }
  for (int e = threadIdx.x; e < 1024; e += 256) {
    int i = by_row ? e % 32 : e / 32, k = by_row ? e / 32 : e % 32;
    i64 at = start + (p0 - begin) + k;
    tile[i * 33 + k] = i0 + i < a.rows && at < end ? narrow(fetch(a.x, a.win, a.row0 + i0 + i, at)) : 0;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 1024; e += 256) {
    int i = e / 32, k = e % 32;
    if (i0 + i < a.rows) a.y[(i0 + i) * a.k + p0 + k] = tile[i * 33 + k];
  }
}

const int TILE = 128, DEPTH = 32, STAGES = 3, PIECE = TILE * DEPTH;
DEV int place(int row, int piece) { return row * DEPTH + ((piece ^ ((row >> 1) & 3)) << 3); }

DEV void stage_tile(uint16_t* to, const Operand& x, i64 row0, i64 rows, i64 k0, i64 k) {
  for (int c = threadIdx.x; c < TILE * DEPTH / 8; c += 256) {
    int r = c >> 2, piece = c & 3;
    bool inside = row0 + r < rows && k0 + piece * 8 < k;
    const uint16_t* from = (const uint16_t*)x.p;
    copy_async(to + place(r, piece), inside ? from + (row0 + r) * x.stride + k0 + piece * 8 : from, inside ? 16 : 0);
  }
}

template <bool FOLD> DEV void tensor_product(const ProductArgs& a) {
  SHARED(uint16_t, stages);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wm = (warp & 1) * 64, wn = (warp >> 1) * 32;
  i64 across = (a.n + TILE - 1) / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
  i64 steps = (a.k + DEPTH - 1) / DEPTH, run = 0;
  float sum[4][4][4] = {}, total[FOLD ? 4 : 1][4][4];
  auto row = [&](int i, int e) { return m0 + wm + i * 16 + (lane >> 2) + (e >> 1) * 8; };
  auto col = [&](int j, int e) { return n0 + wn + j * 8 + (lane & 3) * 2 + (e & 1); };
  if constexpr (FOLD) UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int e = 0; e < 4; e++)
        total[i][j][e] = a.accumulate && row(i, e) < a.m && col(j, e) < a.n ? at(a.c, row(i, e), (int)col(j, e)) : 0;
  UNROLL for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) stage_tile(stages + s * 2 * PIECE, a.a, m0, a.m, s * DEPTH, a.k), stage_tile(stages + s * 2 * PIECE + PIECE, a.b, n0, a.n, s * DEPTH, a.k);
    copy_commit();
  }
  for (i64 t = 0; t < steps; t++) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    i64 ahead = t + STAGES - 1;
    uint16_t* to = stages + ahead % STAGES * 2 * PIECE;
    if (ahead < steps) stage_tile(to, a.a, m0, a.m, ahead * DEPTH, a.k), stage_tile(to + PIECE, a.b, n0, a.n, ahead * DEPTH, a.k);
    copy_commit();
    const uint16_t *sa = stages + t % STAGES * 2 * PIECE, *sb = sa + PIECE;
    UNROLL for (int half = 0; half < 2; half++) {
      uint32_t x[4][4], y[2][4];
      UNROLL for (int i = 0; i < 4; i++) load_matrix(x[i], sa + place(wm + i * 16 + (lane & 15), half * 2 + (lane >> 4)));
      UNROLL for (int j = 0; j < 2; j++) load_matrix(y[j], sb + place(wn + j * 16 + (lane & 7) + (lane >> 4) * 8, half * 2 + ((lane >> 3) & 1)));
      UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) multiply(sum[i][j], x[i], &y[j >> 1][(j & 1) * 2]);
    }
    if constexpr (FOLD) {
      auto end = [&] { return a.starts ? a.starts[run + 1] : (run + 1) * a.run; };
      while (run < a.runs && end() < (t + 1) * DEPTH) run++;  // samples without rows
      if (run < a.runs && end() == (t + 1) * DEPTH) UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++)
          UNROLL for (int e = 0; e < 4; e++) total[i][j][e] = add(total[i][j][e], mul(a.alpha, sum[i][j][e])), sum[i][j][e] = 0;
    }
  }
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int e = 0; e < 4; e++) {
        i64 m = row(i, e), n = col(j, e);
        if (m >= a.m || n >= a.n) continue;
        float v;
        if constexpr (FOLD)
          v = total[i][j][e];
        else
          v = mul(a.alpha, sum[i][j][e]);
        finish(a, a.row0 + m, (int)n, v);
      }
}
KERNEL(product_tensor, ProductArgs, 256) { tensor_product<false>(a); }
KERNEL(product_tensor_fold, ProductArgs, 256) { tensor_product<true>(a); }

// finish_product is the epilogue of sums that a library computed: operand a holds them, in fp32.
KERNEL(finish_product, ProductArgs, 256) {
  i64 total = a.m * a.n;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 m = i / a.n;
    int n = (int)(i % a.n);
    finish(a, a.row0 + m, n, mul(a.alpha, load(a.a.p, F32, m * a.a.stride + n)));
  }
}
