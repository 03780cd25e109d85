// product32.cu: products and convolutions in fp32, for operands whose pieces of four elements are whole pieces of
// memory; others go by product.cu, with the same bits. An element's sum is one chain over k (ref/gemm.go).
//
// A block of 256 threads makes 128 x 128 elements, eight by eight a thread: from shared memory four reads of 16 bytes
// serve 64 multiplications. Slices of 16 of k lie there by k; while one is multiplied, the next is on its way to
// registers.
#include "product.h"
#include "row.h"

const int SPAN32 = 128, DEPTH32 = 16, LINE32 = SPAN32 + 4;

// A Source32 brings a thread's two pieces of a slice of an operand.
template <int KIND> struct Source32 {
  const float* p[2];
  int live[2];  // whether there is such a row, or columns
  // PATCHES: a pixel's window, and where in it the piece lies.
  int top[2], left[2], ky, kx, channel;
  int at;  // ROWS, COLUMNS: the piece's first k

  MEMBER Source32(const ProductArgs& a, const Operand& x, i64 i0, i64 rows) {
    at = KIND == COLUMNS ? threadIdx.x / 32 : threadIdx.x % 4 * 4;
    ky = kx = 0, channel = at;
    UNROLL for (int q = 0; q < 2; q++) {
      i64 i = KIND == COLUMNS ? i0 + threadIdx.x % 32 * 4 : i0 + threadIdx.x / 4 + 64 * q;
      live[q] = i < rows;
      if (KIND == ROWS)
        p[q] = (const float*)x.p + i * x.stride + at;
      else if (KIND == COLUMNS)
        p[q] = (const float*)x.p + (at + 8 * q) * x.stride + i;
      else {
        i64 row, column, n, y;
        split(i, a.win.ow, &row, &column), split(row, a.win.oh, &n, &y);
        top[q] = (int)y * a.win.stride - a.win.top, left[q] = (int)column * a.win.stride - a.win.left;
        if (!live[q]) top[q] = -(1 << 30);  // outside
        p[q] = (const float*)x.p + ((n * a.win.h + top[q]) * a.win.w + left[q]) * a.win.in;  // of the window's corner, which may lie outside
      }
    }
    if (KIND == PATCHES) settle(a.win);
  }
  MEMBER void settle(const Window& w) {
    for (; channel >= w.in; channel -= w.in)
      if (++kx == w.kw) kx = 0, ky++;
  }
  // read takes the next slice, left of whose k there are; beyond them, and outside the operand, are zeros.
  MEMBER void read(const ProductArgs& a, const Operand& x, i64 rest, Floats4 (&v)[2]) {
    i64 off = KIND == PATCHES ? ((i64)ky * a.win.w + kx) * a.win.in + channel : 0;
    UNROLL for (int q = 0; q < 2; q++) {
      bool there = at + (KIND == COLUMNS ? 8 * q : 0) < rest;
      if (KIND == PATCHES)
        there = there && (uint32_t)(top[q] + ky) < (uint32_t)a.win.h && (uint32_t)(left[q] + kx) < (uint32_t)a.win.w;
      else
        there = there && live[q];
      const float* from = p[q] + off;
      v[q] = there ? *(const Floats4*)from : Floats4{0, 0, 0, 0};
      if (KIND == ROWS) p[q] += DEPTH32;
      if (KIND == COLUMNS) p[q] += DEPTH32 * x.stride;
    }
    if (KIND == PATCHES) channel += DEPTH32, settle(a.win);
  }
  MEMBER void write(float* to, const Floats4 (&v)[2]) const {
    UNROLL for (int q = 0; q < 2; q++)
      if (KIND == COLUMNS)
        *(Floats4*)(to + (at + 8 * q) * LINE32 + threadIdx.x % 32 * 4) = v[q];
      else
        UNROLL for (int e = 0; e < 4; e++) to[(at + e) * LINE32 + threadIdx.x / 4 + 64 * q] = v[q].x[e];
  }
};

template <int LEFT, int RIGHT> DEV void product32(const ProductArgs& a) {
  SHARED(float, room);
  const int HALF = DEPTH32 * LINE32;  // a slice of one operand; two slices of both take turns
  i64 across = (a.n + SPAN32 - 1) / SPAN32, m0 = blockIdx.x / across * SPAN32, n0 = blockIdx.x % across * SPAN32;
  // A warp has 4 x 8 threads, each with rows and columns 0 to 3 and 64 to 67 from its own on: what a warp reads at once lies together.
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = ((warp >> 1) * 4 + (lane >> 3)) * 4, column = ((warp & 1) * 8 + (lane & 7)) * 4;
  Source32<LEFT> left(a, a.a, m0, a.m);
  Source32<RIGHT> right(a, a.b, n0, a.n);
  float sum[8][8] = {};
  Floats4 x[2], y[2];
  left.read(a, a.a, a.k, x), right.read(a, a.b, a.k, y);
  left.write(room, x), right.write(room + HALF, y);
  __syncthreads();
  for (i64 k0 = 0, slot = 0; k0 < a.k; k0 += DEPTH32, slot ^= 1) {
    i64 rest = a.k - k0 - DEPTH32;
    if (rest > 0) left.read(a, a.a, rest, x), right.read(a, a.b, rest, y);
    const float *l = room + slot * 2 * HALF + row, *r = room + slot * 2 * HALF + HALF + column;
    auto multiply_at = [&](int k) {
      Floats4 u[2] = {*(const Floats4*)(l + k * LINE32), *(const Floats4*)(l + k * LINE32 + 64)};
      Floats4 v[2] = {*(const Floats4*)(r + k * LINE32), *(const Floats4*)(r + k * LINE32 + 64)};
      UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 8; j++) sum[i][j] = fma_(u[i >> 2].x[i & 3], v[j >> 2].x[j & 3], sum[i][j]);
    };
    if (rest >= 0)
      UNROLL_BY(8) for (int k = 0; k < DEPTH32; k++) multiply_at(k);
    else
      for (int k = 0; k < (int)(rest + DEPTH32); k++) multiply_at(k);
    if (rest > 0) {
      float* to = room + (slot ^ 1) * 2 * HALF;
      left.write(to, x), right.write(to + HALF, y);
    }
    __syncthreads();
  }
  UNROLL for (int i = 0; i < 8; i++) {
    i64 m = m0 + row + (i & 3) + (i >> 2) * 64;
    if (m >= a.m) continue;
    UNROLL for (int j = 0; j < 8; j += 4) {
      const float* s = sum[i] + j;
      finish_four(a, m, (int)n0 + column + j * 16, 2, mul(a.alpha, s[0]), mul(a.alpha, s[1]), mul(a.alpha, s[2]), mul(a.alpha, s[3]));
    }
  }
}
KERNEL_TWO(product32_nt, ProductArgs, 256) { product32<ROWS, ROWS>(a); }
KERNEL_TWO(product32_nn, ProductArgs, 256) { product32<ROWS, COLUMNS>(a); }
KERNEL_TWO(conv32, ProductArgs, 256) { product32<PATCHES, ROWS>(a); }
