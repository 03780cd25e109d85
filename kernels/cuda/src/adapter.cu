// adapter.cu: products of adapters, by mma.sync: a few columns from a long k (adapter_down), and many columns from a short k
// (adapter_up). The left operand is bf16 along k, the right one fp32, along k (NT) or across it (NN).
//
// They add as every tile of tensor.cu does, 16 of k at a time to one sum in ascending order, and so have its bits. What
// differs is how long one takes: a tile of 32 x 32 spends some 1,500 cycles on each slice of 64 of k, and its epilogue
// waits for memory again for every two pairs of elements; both are bound by latency, on few blocks. So here a block of adapter_down has
// 16 rows, brings slices of 128 of k, and rounds factors as they go to the registers; a warp of adapter_up reads
// everything that it needs, residual and gate included, before it waits for any of it, and takes columns in an order in
// which eight neighbours of a row are one thread's.
#include "staging.h"

const int DOWN_ROWS = 16, DOWN_COLS = 32, DOWN_DEPTH = 128, DOWN_STAGES = 4;
const int DOWN_LEFT = DOWN_ROWS * DOWN_DEPTH * 2, DOWN_STAGE = DOWN_LEFT + DOWN_COLS * DOWN_DEPTH * 4;  // bytes

// A slice's pieces of 16 bytes are moved about within their line, so that those that are read at once meet in no bank.
template <bool ACROSS> DEV void down_stage(const ProductArgs& a, Spot room, i64 m0, int n0, int k0) {
  int t = threadIdx.x;
  UNROLL for (int i = 0; i < 2; i++) {
    int row = t / 16 + 8 * i, piece = t % 16, k = k0 + piece * 8;
    bool there = m0 + row < a.m && k < a.k;
    copy_async_at(room + row * 256 + ((piece ^ (row & 7)) << 4), (const uint16_t*)a.a.p + (there ? (m0 + row) * a.a.stride + k : 0), there ? 16 : 0);
  }
  room += DOWN_LEFT;
  UNROLL for (int i = 0; i < 8; i++) {
    int line = ACROSS ? t / 8 + 16 * i : t / 32 + 4 * i, piece = ACROSS ? t % 8 : t % 32, key = (ACROSS ? line >> 1 & 3 : line & 3) * 2;
    int n = n0 + (ACROSS ? piece * 4 : line), k = k0 + (ACROSS ? line : piece * 4);
    bool there = n < a.n && k < a.k;
    copy_async_at(room + line * (ACROSS ? 128 : 512) + ((piece ^ key) << 4), (const float*)a.b.p + (there ? ACROSS ? k * a.b.stride + n : n * a.b.stride + k : 0), there ? 16 : 0);
  }
}

template <bool ACROSS> DEV void adapter_down(const ProductArgs& a) {
  SHARED(unsigned char, room);
  Spot start = spot_of(room);
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, g = lane >> 2, t = lane & 3;
  uint32_t across = (uint32_t)((a.n + DOWN_COLS - 1) / DOWN_COLS);
  i64 m0 = (i64)(blockIdx.x / across) * DOWN_ROWS;
  int n0 = blockIdx.x % across * DOWN_COLS, slices = (int)((a.k + DOWN_DEPTH - 1) / DOWN_DEPTH);
  auto stage = [&](int s) {
    if (s < slices) down_stage<ACROSS>(a, start + s % DOWN_STAGES * DOWN_STAGE, m0, n0, s * DOWN_DEPTH);
    copy_commit();
  };
  ROLLED for (int s = 0; s < DOWN_STAGES - 1; s++) stage(s);
  float sum[4] = {};
  ROLLED for (int s = 0; s < slices; s++) {
    copy_wait<DOWN_STAGES - 2>();
    __syncthreads();
    stage(s + DOWN_STAGES - 1);  // in the place of the slice before this one
    int at = s % DOWN_STAGES * DOWN_STAGE, left = (int)a.k - s * DOWN_DEPTH;
    const float* factors = (const float*)(room + at + DOWN_LEFT);
    UNROLL for (int k = 0; k < DOWN_DEPTH; k += 16) {
      if (k >= left) break;
      uint32_t x[4], y[2];
      load_matrix_at(x, start + at + (lane & 15) * 256 + ((k / 8 + (lane >> 4) ^ (lane & 7)) << 4));
      UNROLL for (int h = 0; h < 2; h++) {
        int at_k = k + 8 * h + 2 * t, n = warp * 8 + g;
        Pair v;
        if (ACROSS) {
          const float* f = factors + at_k * DOWN_COLS + ((n / 4 ^ t * 2) << 2) + n % 4;
          v = {f[0], f[DOWN_COLS]};
        } else
          v = *(const Pair*)(factors + n * DOWN_DEPTH + ((at_k / 4 ^ (n & 3) * 2) << 2) + at_k % 4);
        y[h] = rounded2(v.x, v.y);
      }
      multiply(sum, x, y);
    }
  }
  int n = n0 + warp * 8 + 2 * t;
  bool plain = a.paired && !(a.bias.p || a.pre.p || a.act || a.gate.p || a.residual.p || a.accumulate);
  UNROLL for (int half = 0; half < 2; half++) {
    i64 m = m0 + g + 8 * half;
    Pair v = {mul(a.alpha, sum[2 * half]), mul(a.alpha, sum[2 * half + 1])};
    if (m >= a.m || n >= a.n) continue;
    if (plain)
      put_pair(a.c, a.row0 + m, n, v);
    else {
      finish(a, a.row0 + m, n, v.x);
      if (n + 1 < a.n) finish(a, a.row0 + m, n + 1, v.y);
    }
  }
}
KERNEL(adapter_down_nt, ProductArgs, 128) { adapter_down<false>(a); }
KERNEL(adapter_down_nn, ProductArgs, 128) { adapter_down<true>(a); }

// Eight neighbours of a row as they lie, and as numbers.
struct alignas(16) Piece16 { uint32_t x[4]; };
struct Raw8 { Piece16 p[2]; };
struct Eight32 { float x[8]; };
DEV Raw8 raw8(const void* p, int type, i64 i) {
  Raw8 r;
  if (type == F32)
    r.p[0] = ((const Piece16*)p)[i >> 2], r.p[1] = ((const Piece16*)p)[(i >> 2) + 1];
  else
    r.p[0] = ((const Piece16*)p)[i >> 3];
  return r;
}
DEV Raw8 raw8(const Mat& x, i64 m, int n) { return raw8(x.p, x.type, m * x.stride + n); }
DEV Eight32 numbers(const Raw8& r, int type) {
  Eight32 v;
  UNROLL for (int e = 0; e < 8; e++) v.x[e] = flush(from_bits(type == F32 ? r.p[e / 4].x[e % 4] : e & 1 ? r.p[0].x[e / 2] & 0xffff0000u : r.p[0].x[e / 2] << 16));
  return v;
}
// put8 stores what arithmetic gave: it has no denormals.
DEV void put8(const Mat& to, i64 m, int n, const Eight32& v) {
  i64 i = m * to.stride + n;
  Piece16 p[2];
  if (to.type == F32) {
    UNROLL for (int e = 0; e < 8; e++) p[e / 4].x[e % 4] = bits(v.x[e]);
    ((Piece16*)to.p)[i >> 2] = p[0], ((Piece16*)to.p)[(i >> 2) + 1] = p[1];
  } else {
    UNROLL for (int e = 0; e < 4; e++) p[0].x[e] = pack2(v.x[2 * e], v.x[2 * e + 1]);
    ((Piece16*)to.p)[i >> 3] = p[0];
  }
}

// A warp has 16 rows and 64 columns, as two times four products of 16 x 8, whose column c of product j is column 4c + j of 32: so a lane's
// are eight neighbours, and so are the four of a factor's row that it reads across k.
template <bool ACROSS> DEV void adapter_up(const ProductArgs& a) {
  int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  uint32_t across = (uint32_t)((a.n + 255) / 256);
  i64 m0 = (i64)(blockIdx.x / across) * 16;
  int n0 = blockIdx.x % across * 256 + threadIdx.x / 32 * 64;
  if (n0 >= a.n) return;
  const float* factors = (const float*)a.b.p;
  Raw8 residual[2][2], gate[2][2];
  auto each = [&](auto f) {
    UNROLL for (int half = 0; half < 2; half++)
      UNROLL for (int c = 0; c < 2; c++)
        if (m0 + g + 8 * half < a.m && n0 + 32 * c + 8 * t < a.n) f(half, c, a.row0 + m0 + g + 8 * half, n0 + 32 * c + 8 * t);
  };
  if (a.residual.p) each([&](int half, int c, i64 m, int n) { residual[half][c] = raw8(a.residual, m, n); });
  if (a.gate.p) each([&](int half, int c, i64 m, int n) { gate[half][c] = raw8(a.gate, (uint32_t)m / (uint32_t)a.gate_rows, n); });
  float sum[2][4][4] = {};
  ROLLED for (int k = 0; k < a.k; k += 16) {
    uint32_t x[4], y[2][4][2];
    UNROLL for (int e = 0; e < 4; e++) {
      i64 m = m0 + g + 8 * (e & 1);
      int at = k + 2 * t + 8 * (e >> 1);
      x[e] = m < a.m && at < a.k ? ((const uint32_t*)a.a.p)[(m * a.a.stride + at) >> 1] : 0;
    }
    UNROLL for (int c = 0; c < 2; c++)
      UNROLL for (int h = 0; h < 2; h++) {
        int n = n0 + 32 * c + 4 * g, at = k + 2 * t + 8 * h;
        bool there = n < a.n && at < a.k;
        if (ACROSS) {
          Four u = {}, v = {};
          if (there) u = *(const Four*)(factors + at * a.b.stride + n), v = *(const Four*)(factors + (at + 1) * a.b.stride + n);
          UNROLL for (int j = 0; j < 4; j++) y[c][j][h] = rounded2(u.x[j], v.x[j]);
        } else
          UNROLL for (int j = 0; j < 4; j++) {
            Pair v = {0, 0};
            if (there) v = *(const Pair*)(factors + (n + j) * a.b.stride + at);
            y[c][j][h] = rounded2(v.x, v.y);
          }
      }
    UNROLL for (int c = 0; c < 2; c++)
      UNROLL for (int j = 0; j < 4; j++) multiply(sum[c][j], x, y[c][j]);
  }
  ROLLED for (int i = 0; i < 4; i++) {
    int half = i & 1, c = i >> 1, n = n0 + 32 * c + 8 * t;
    i64 m = a.row0 + m0 + g + 8 * half;
    Eight32 v;
    Raw8 by = gate[0][0], more = residual[0][0];
    UNROLL for (int k = 0; k < 4; k++)
      if (k == i) {
        UNROLL for (int e = 0; e < 8; e++) v.x[e] = mul(a.alpha, sum[k >> 1][e % 4][2 * (k & 1) + e / 4]);
        by = gate[k & 1][k >> 1], more = residual[k & 1][k >> 1];
      }
    if (m0 + g + 8 * half >= a.m || n >= a.n) continue;
    auto with = [&](const Raw8& raw, int type, auto f) {
      Eight32 y = numbers(raw, type);
      UNROLL for (int e = 0; e < 8; e++) v.x[e] = f(v.x[e], y.x[e]);
    };
    auto plus = [](float x, float y) { return add(x, y); };
    if (a.bias.p) with(raw8(a.bias.p, a.bias.type, n), a.bias.type, plus);
    if (a.pre.p) put8(a.pre, m, n, v);
    if (a.act) UNROLL for (int e = 0; e < 8; e++) v.x[e] = activate(a.act, v.x[e]);
    if (a.gate.p) with(by, a.gate.type, [](float x, float y) { return mul(x, y); });
    if (a.residual.p) with(more, a.residual.type, plus);
    if (a.accumulate) with(raw8(a.c, m, n), a.c.type, plus);
    put8(a.c, m, n, v);
  }
}
KERNEL(adapter_up_nt, ProductArgs, 128) { adapter_up<false>(a); }
KERNEL(adapter_up_nn, ProductArgs, 128) { adapter_up<true>(a); }

// The gradients of factors: both operands are bf16 across k, of which slices of 128 come at a time; no slice spans two samples, and
// the product of each, times alpha, is added to the total (product.h). A block has 32 x 32 elements, a warp 16 x 16.
const int BACK_DEPTH = 128, BACK_STAGES = 4, BACK_SIDE = BACK_DEPTH * 64, BACK_STAGE = 2 * BACK_SIDE;  // bytes

DEV void back_stage(const ProductArgs& a, Spot room, i64 m0, int n0, const Slice& s) {
  UNROLL for (int side = 0; side < 2; side++) {
    const Operand& x = side ? a.b : a.a;
    i64 i0 = side ? n0 : m0, rows = side ? a.n : a.m;
    UNROLL for (int i = 0; i < 4; i++) {
      int line = threadIdx.x / 4 + 32 * i, piece = threadIdx.x % 4;
      bool there = line < s.left && i0 + piece * 8 < rows;
      copy_async_at(room + side * BACK_SIDE + line * 64 + ((piece ^ (line >> 1 & 3)) << 4),
                    (const uint16_t*)x.p + (there ? (s.start + s.at + line) * x.stride + i0 + piece * 8 : 0), there ? 16 : 0);
    }
  }
}
KERNEL(adapter_back, ProductArgs, 128) {
  SHARED(unsigned char, room);
  Spot start = spot_of(room);
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, wm = warp % 2 * 16, wn = warp / 2 * 16, g = lane >> 2, t = lane & 3;
  uint32_t across = (uint32_t)((a.n + 31) / 32);
  i64 m0 = (i64)(blockIdx.x / across) * 32;
  int n0 = blockIdx.x % across * 32;
  auto each = [&](auto f) {
    UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int half = 0; half < 2; half++)
        if (m0 + wm + g + 8 * half < a.m && n0 + wn + 8 * j + 2 * t < a.n) f(j, half, a.row0 + m0 + wm + g + 8 * half, n0 + wn + 8 * j + 2 * t);
  };
  float sum[2][4] = {};
  Pair total[2][2];
  UNROLL for (int j = 0; j < 2; j++)
    UNROLL for (int half = 0; half < 2; half++) total[j][half] = {from_bits(0x80000000u), from_bits(0x80000000u)};  // what is added to -0 stays what it is
  if (a.fold && a.accumulate) each([&](int j, int half, i64 m, int n) { total[j][half] = pair_at(a.c, m, n); });
  Slice now = {-1, 0, 0, 0}, ahead;
  next_run(a, now);
  ahead = now;
  int in = 0;
  auto stage = [&]() {
    if (ahead.run < (int)a.runs) back_stage(a, start + in % BACK_STAGES * BACK_STAGE, m0, n0, ahead), advance(a, ahead, BACK_DEPTH);
    in++, copy_commit();
  };
  ROLLED for (int s = 0; s < BACK_STAGES - 1; s++) stage();
  ROLLED for (int s = 0; now.run < (int)a.runs; s++) {
    copy_wait<BACK_STAGES - 2>();
    __syncthreads();
    stage();
    Spot at = start + s % BACK_STAGES * BACK_STAGE;
    UNROLL for (int k = 0; k < BACK_DEPTH; k += 16) {
      if (k >= now.left) break;
      uint32_t x[4], y[4];
      // The left side's matrices of 8 x 8 come with the second beside the first, the right side's line by line.
      int beside = (lane & 7) + (lane >> 4) * 8, down = lane & 15, px = wm / 8 + (lane >> 3 & 1), py = wn / 8 + (lane >> 4);
      load_matrix_turned_at(x, at + (k + beside) * 64 + ((px ^ (beside >> 1 & 3)) << 4));
      load_matrix_turned_at(y, at + BACK_SIDE + (k + down) * 64 + ((py ^ (down >> 1 & 3)) << 4));
      multiply(sum[0], x, y), multiply(sum[1], x, y + 2);
    }
    if (now.left <= BACK_DEPTH) UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int half = 0; half < 2; half++) {
        total[j][half] = plus(total[j][half], {mul(a.alpha, sum[j][2 * half]), mul(a.alpha, sum[j][2 * half + 1])});
        sum[j][2 * half] = sum[j][2 * half + 1] = 0;
      }
    advance(a, now, BACK_DEPTH);
  }
  each([&](int j, int half, i64 m, int n) {
    Pair v = total[j][half];
    if (a.accumulate && !a.fold) v = plus(v, pair_at(a.c, m, n));
    put_pair(a.c, m, n, v);
  });
}
