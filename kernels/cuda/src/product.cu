// product.cu: matrix products and convolutions in the arithmetic of ref/gemm.go, bit for bit:
// fp32 is one chain over k; bf16 is the rule of AMX tiles, an even and an odd chain for each
// 32 of k. It runs on the fp32 units: the obvious twin of the tensor-core product.
//
// A block of 16 x 16 threads makes 64 x 64 elements, four by four a thread (16 apart), from
// slices of 32 of k in shared memory.
#include "product.h"

const int SIDE = 64, SLICE = 32, LINE = SIDE + 1;

template <bool BF16> DEV void fill_slice(const ProductArgs& a, const Operand& x, float* to, i64 i0, i64 rows, i64 k0, i64 end) {
  bool by_row = x.kind == COLUMNS || x.kind == TAPS || x.kind == TURNED;  // neighbours in memory differ in i
  for (int e = threadIdx.x; e < SIDE * SLICE; e += 256) {
    int i = by_row ? e % SIDE : e / SLICE, k = by_row ? e / SIDE : e % SLICE;
    float v = 0;
    if (i0 + i < rows && k0 + k < end) v = fetch(x, a.win, i0 + i, k0 + k);
    to[k * LINE + i] = BF16 ? rounded(v) : v;
  }
}

template <bool BF16> DEV void product(const ProductArgs& a) {
  SHARED(float, left);
  float* right = left + SLICE * LINE;
  i64 across = (a.n + SIDE - 1) / SIDE, m0 = blockIdx.x / across * SIDE, n0 = blockIdx.x % across * SIDE;
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  float total[4][4] = {}, sum[4][4] = {};
  bool first = true;
  if (a.fold && a.accumulate) {
    first = false;
    UNROLL for (int i = 0; i < 4; i++)
      UNROLL for (int j = 0; j < 4; j++)
        if (m0 + ty + 16 * i < a.m && n0 + tx + 16 * j < a.n) total[i][j] = at(a.c, m0 + ty + 16 * i, (int)(n0 + tx + 16 * j));
  }
  for (i64 r = 0; r < a.runs; r++) {
    i64 end = run_start(a, r + 1);
    for (i64 k0 = run_start(a, r); k0 < end; k0 += SLICE) {
      __syncthreads();
      fill_slice<BF16>(a, a.a, left, m0, a.m, k0, end);
      fill_slice<BF16>(a, a.b, right, n0, a.n, k0, end);
      __syncthreads();
      float e[4][4] = {}, o[4][4] = {};
      int length = BF16 || end - k0 > SLICE ? SLICE : (int)(end - k0);
      for (int k = 0; k < length; k++) {
        float x[4], y[4];
        UNROLL for (int i = 0; i < 4; i++) x[i] = left[k * LINE + ty + 16 * i], y[i] = right[k * LINE + tx + 16 * i];
        UNROLL for (int i = 0; i < 4; i++)
          UNROLL for (int j = 0; j < 4; j++) {
            if (!BF16)
              sum[i][j] = fma_(x[i], y[j], sum[i][j]);
            else if (k & 1)
              o[i][j] = fma_(x[i], y[j], o[i][j]);
            else
              e[i][j] = fma_(x[i], y[j], e[i][j]);
          }
      }
      if (BF16) UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) sum[i][j] = add(sum[i][j], add(e[i][j], o[i][j]));
    }
    if (!a.fold && r + 1 < a.runs) continue;
    UNROLL for (int i = 0; i < 4; i++)
      UNROLL for (int j = 0; j < 4; j++) {
        float v = mul(a.alpha, sum[i][j]);
        total[i][j] = first ? v : add(total[i][j], v);
        sum[i][j] = 0;
      }
    first = false;
  }
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      if (m0 + ty + 16 * i < a.m && n0 + tx + 16 * j < a.n) finish(a, m0 + ty + 16 * i, (int)(n0 + tx + 16 * j), total[i][j]);
}
KERNEL(product_f32, ProductArgs, 256) { product<false>(a); }
KERNEL(product_bf16, ProductArgs, 256) { product<true>(a); }

// pack writes a weight's rows in the type of its arithmetic.
struct PackArgs { Mat x, y; };
KERNEL(pack, PackArgs, 256) {
  i64 total = (i64)a.x.rows * a.x.cols;
  for (i64 i = thread_index(); i < total; i += thread_count()) put(a.y, i / a.x.cols, (int)(i % a.x.cols), at(a.x, i / a.x.cols, (int)(i % a.x.cols)));
}

// The gradient of a convolution's bias: one thread a channel, pixels one after another within a
// sample, samples in order.
struct BiasArgs { void* dy; float* db; i64 n, pixels, out; int type, pad; };
KERNEL(conv_bias, BiasArgs, 128) {
  i64 c = thread_index();
  if (c >= a.out) return;
  for (i64 n = 0; n < a.n; n++) {
    float sum = 0;
    for (i64 p = 0; p < a.pixels; p++) sum = add(sum, load(a.dy, a.type, (n * a.pixels + p) * a.out + c));
    a.db[c] = add(a.db[c], sum);
  }
}
