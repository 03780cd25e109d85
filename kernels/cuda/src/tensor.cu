// tensor.cu: products of bf16 on tensor cores (mma.sync). The terms are exact and the sums fp32, in
// an order that is the unit's own within 16 of k and fixed beyond: so results are near those of
// product_bf16, its twin, and a row's bits depend neither on the batch nor on where it stands.
//
// There is a kernel for each way that operands lie (staging.h), and for each of three tiles: 128 x 128 has the
// fewest reads for a product, 64 x 64 and 32 x 32 the more blocks where a result is small. Every tile adds the
// same 16 of k at a time to the same sum, in the same order, so the choice (tensor.go) changes no bit.
#include "staging.h"

// gather writes an operand as bf16 that can be read in pieces, where its own memory cannot: as rows, each
// run of k padded with zeros to 32, y[i, r*pitch + k] - or by columns, y[k, i].
// Tiles of 32 x 32 go through shared memory, so that both sides are read and written along memory.
struct GatherOperandArgs {
  Operand x;
  Window win;
  uint16_t* y;
  i64 row0, rows, k, stride;  // k, stride: of y
  i64 run;
  int columns, pad;
};
KERNEL(gather_operand, GatherOperandArgs, 256) {
  SHARED(uint16_t, tile);
  bool by_row = a.x.kind == COLUMNS || a.x.kind == TAPS || a.x.kind == TURNED;
  i64 slices = (a.k + 31) / 32, i0 = blockIdx.x / slices * 32, p0 = blockIdx.x % slices * 32;
  // The run that this slice belongs to. Slices never span two.
  i64 wide = (a.run + 31) / 32 * 32, r = p0 / wide, start = r * a.run, end = start + a.run;
  for (int e = threadIdx.x; e < 1024; e += 256) {
    int i = by_row ? e % 32 : e / 32, k = by_row ? e / 32 : e % 32;
    i64 at = start + (p0 - r * wide) + k;
    tile[i * 33 + k] = i0 + i < a.rows && at < end ? narrow(fetch(a.x, a.win, a.row0 + i0 + i, at)) : 0;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 1024; e += 256) {
    int i = a.columns ? e % 32 : e / 32, k = a.columns ? e / 32 : e % 32;
    if (i0 + i < a.rows && p0 + k < a.k) a.y[a.columns ? (p0 + k) * a.stride + i0 + i : (i0 + i) * a.stride + p0 + k] = tile[i * 33 + k];
  }
}

// A Tile is what a block computes, M x N, in warps of I x J products of 16 x 8; slices of DEPTH of k.
template <int M_, int N_, int DOWN_, int OVER, int DEPTH_, int STAGES_> struct Tile {
  static const int M = M_, N = N_, DOWN = DOWN_, DEPTH = DEPTH_, STAGES = STAGES_, THREADS = DOWN * OVER * 32;
  static const int I = M / DOWN / 16, J = N / OVER / 8;
};
using Tile128 = Tile<128, 128, 2, 4, 32, 4>;
using Tile64 = Tile<64, 64, 2, 2, 64, 3>;
using Tile32 = Tile<32, 32, 2, 2, 64, 5>;

template <class T, int LEFT, int RIGHT, bool FOLD> DEV void tensor_product(const ProductArgs& a) {
  using Left = Source<LEFT, T::M, T::DEPTH, T::STAGES, T::THREADS>;
  using Right = Source<RIGHT, T::N, T::DEPTH, T::STAGES, T::THREADS>;
  const int I = T::I, J = T::J, STAGES = T::STAGES;
  SHARED(unsigned char, room);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wm = warp % T::DOWN * I * 16, wn = warp / T::DOWN * J * 8;
  uint32_t across = (uint32_t)((a.n + T::N - 1) / T::N);
  i64 m0 = (i64)(blockIdx.x / across) * T::M;
  int n0 = blockIdx.x % across * T::N;
  Left left(a, a.a, m0, a.m, room);
  Right right(a, a.b, n0, a.n, room + left.bytes());
  // Element e of fragment (i, j) is that of row (i, e / 2) and column j, or its right neighbour.
  auto row = [&](int i, int half) { return m0 + wm + i * 16 + (lane >> 2) + half * 8; };
  auto col = [&](int j) { return n0 + wn + j * 8 + (lane & 3) * 2; };
  float sum[I][J][4] = {}, total[FOLD ? I : 1][FOLD ? J : 1][4];
  if constexpr (FOLD) UNROLL for (int i = 0; i < I; i++)
    UNROLL for (int half = 0; half < 2; half++)
      UNROLL for (int j = 0; j < J; j++) {
        float* t = &total[i][j][half * 2];
        t[0] = t[1] = from_bits(0x80000000u);  // what is added to -0 stays what it is
        i64 m = row(i, half);
        int n = col(j);
        if (!a.fold || !a.accumulate || m >= a.m || n >= a.n) continue;
        if (a.paired) {
          Pair c = pair_at(a.c, m + a.row0, n);
          t[0] = c.x, t[1] = c.y;
        } else {
          t[0] = at(a.c, m + a.row0, n);
          if (n + 1 < a.n) t[1] = at(a.c, m + a.row0, n + 1);
        }
      }
  Slice now = {-1, 0, 0, 0}, ahead;
  next_run(a, now);
  ahead = now;
  left.enter(ahead), right.enter(ahead);
  auto stage = [&](int slot) {
    if (ahead.run < (int)a.runs) {
      left.stage(ahead, slot, a.m), right.stage(ahead, slot, a.n);
      int run = ahead.run;
      advance(a, ahead, T::DEPTH);
      if (ahead.run == run)
        left.follow(), right.follow();
      else
        left.enter(ahead), right.enter(ahead);
    }
    copy_commit();
  };
  Fragments<Left, false> xs(room, wm);
  Fragments<Right, true> ys(room + left.bytes(), wn);
  UNROLL for (int s = 0; s < STAGES - 1; s++) stage(s);
  for (int t = 0, slot = 0; now.run < (int)a.runs; t++) {
    copy_wait<STAGES - 2>();
    left.convert(t, slot), right.convert(t, slot);
    __syncthreads();
    stage(slot ? slot - 1 : STAGES - 1);  // whose slice was used up before the barrier
    int sa = left.tile(t, slot), sb = right.tile(t, slot);
    slot = slot + 1 < STAGES ? slot + 1 : 0;
    UNROLL for (int k = 0; k < T::DEPTH; k += 16) {
      if (k >= 32 && k / 32 * 32 >= now.left) break;
      uint32_t x[I][4], y[J / 2][4];
      UNROLL for (int i = 0; i < I; i++) xs.read(x[i], sa, i, k);
      UNROLL for (int j = 0; j < J / 2; j++) ys.read(y[j], sb, j, k);
      UNROLL for (int i = 0; i < I; i++)
        UNROLL for (int j = 0; j < J; j++) multiply(sum[i][j], x[i], &y[j >> 1][(j & 1) * 2]);
    }
    if constexpr (FOLD)
      if (now.left <= T::DEPTH) UNROLL for (int i = 0; i < I; i++)
        UNROLL for (int j = 0; j < J; j++)
          UNROLL for (int e = 0; e < 4; e++) total[i][j][e] = add(total[i][j][e], mul(a.alpha, sum[i][j][e])), sum[i][j][e] = 0;
    advance(a, now, T::DEPTH);
  }
  UNROLL for (int i = 0; i < I; i++)
    UNROLL for (int half = 0; half < 2; half++) {
      i64 m = row(i, half);
      if (m < a.m) UNROLL for (int j = 0; j < J; j += 2) {
        auto v = [&](int j, int e) {
          if constexpr (FOLD)
            return total[i][j][half * 2 + e];
          else
            return mul(a.alpha, sum[i][j][half * 2 + e]);
        };
        finish_four(a, a.row0 + m, col(j), 8, v(j, 0), v(j, 1), v(j + 1, 0), v(j + 1, 1));
      }
    }
}
#define PRODUCT(name, side, LEFT, RIGHT, FOLD) \
  KERNEL(name##_##side, ProductArgs, Tile##side::THREADS) { tensor_product<Tile##side, LEFT, RIGHT, FOLD>(a); }
PRODUCT(product_nt, 128, ROWS, ROWS, false)
PRODUCT(product_nt, 64, ROWS, ROWS, false)
PRODUCT(product_nt, 32, ROWS, ROWS, false)
PRODUCT(product_nn, 128, ROWS, COLUMNS, false)
PRODUCT(product_nn, 64, ROWS, COLUMNS, false)
PRODUCT(product_nn, 32, ROWS, COLUMNS, false)
PRODUCT(product_tn, 128, COLUMNS, COLUMNS, true)
PRODUCT(product_tn, 64, COLUMNS, COLUMNS, true)
PRODUCT(product_tn, 32, COLUMNS, COLUMNS, true)
PRODUCT(conv, 128, PATCHES, ROWS, false)
PRODUCT(conv, 64, PATCHES, ROWS, false)
PRODUCT(conv_input, 128, SPREAD, TURNED, false)
PRODUCT(conv_input, 64, SPREAD, TURNED, false)
PRODUCT(conv_weight, 128, COLUMNS, TAPS, true)
PRODUCT(conv_weight, 64, COLUMNS, TAPS, true)

// finish_product is the epilogue of sums that a library computed: operand a holds them, in fp32, in rows
// of whole pieces of 16 bytes.
KERNEL(finish_product, ProductArgs, 256) {
  i64 across = (a.n + 3) / 4, total = a.m * across;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 m = i / across;
    int n = (int)(i % across) * 4;
    Four v = *(const Four*)((const float*)a.a.p + m * a.a.stride + n);
    finish_four(a, a.row0 + m, n, 2, mul(a.alpha, flush(v.x[0])), mul(a.alpha, flush(v.x[1])), mul(a.alpha, flush(v.x[2])), mul(a.alpha, flush(v.x[3])));
  }
}
