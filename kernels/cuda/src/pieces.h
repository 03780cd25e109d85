// pieces.h: how memory is read and written fast. What is computed, and in which order, is the kernels'
// own; here are the forms of access that a device needs to keep its memory busy:
//
//   - eight elements of a row at a time, as 16 bytes of bf16 or 32 of fp32, where operands lie so;
//   - rows read ahead: a sum has one order, but what it adds can be on its way long before;
//   - places in 32 bits: a 64-bit division takes a hundred instructions.
#pragma once
#include "functions.h"

struct alignas(16) Piece { uint32_t w[4]; };

// each calls f(i) for the first of every W of n elements.
template <int W, class F> DEV void each(i64 n, F f) {
  for (i64 i = thread_index(); i < n / W; i += thread_count()) f(i * W);
}

// get and set are W elements from element i on: 1, or 8 where the address allows.
template <int W> DEV void get(float (&v)[W], const void* p, int type, i64 i) {
  if constexpr (W == 1) {
    v[0] = load(p, type, i);
  } else if (type == F32) {
    const Piece* from = (const Piece*)((const float*)p + i);
    Piece x = from[0], y = from[1];
    UNROLL for (int e = 0; e < 4; e++) v[e] = flush(from_bits(x.w[e])), v[4 + e] = flush(from_bits(y.w[e]));
  } else {
    Piece x = *(const Piece*)((const uint16_t*)p + i);
    UNROLL for (int e = 0; e < 4; e++) v[2 * e] = flush(from_bits(x.w[e] << 16)), v[2 * e + 1] = flush(from_bits(x.w[e] & 0xffff0000u));
  }
}
template <int W> DEV void set(void* p, int type, i64 i, const float (&v)[W]) {
  if constexpr (W == 1) {
    store(p, type, i, v[0]);
  } else if (type == F32) {
    Piece x, y, *to = (Piece*)((float*)p + i);
    UNROLL for (int e = 0; e < 4; e++) x.w[e] = bits(flush(v[e])), y.w[e] = bits(flush(v[4 + e]));
    to[0] = x, to[1] = y;
  } else {
    Piece x;
    UNROLL for (int e = 0; e < 4; e++) x.w[e] = narrow(v[2 * e]) | (uint32_t)narrow(v[2 * e + 1]) << 16;
    *(Piece*)((uint16_t*)p + i) = x;
  }
}
template <int W> DEV void get(float (&v)[W], const Vec& x, i64 i) { get(v, x.p, x.type, i); }
template <int W> DEV void get(float (&v)[W], const Mat& x, i64 r, int c) { get(v, x.p, x.type, r * x.stride + c); }
template <int W> DEV void set(const Vec& x, i64 i, const float (&v)[W]) { set(x.p, x.type, i, v); }
template <int W> DEV void set(const Mat& x, i64 r, int c, const float (&v)[W]) { set(x.p, x.type, r * x.stride + c, v); }

// For what goes through arithmetic, which takes denormals for zeros itself and makes none: get_as_is is get of eight,
// and set_results is set, without a look at every element.
DEV void get_as_is(float (&v)[8], const void* p, int type, i64 i) {
  if (type == F32) {
    const Piece* from = (const Piece*)((const float*)p + i);
    Piece x = from[0], y = from[1];
    UNROLL for (int e = 0; e < 4; e++) v[e] = from_bits(x.w[e]), v[4 + e] = from_bits(y.w[e]);
  } else {
    Piece x = *(const Piece*)((const uint16_t*)p + i);
    UNROLL for (int e = 0; e < 4; e++) v[2 * e] = from_bits(x.w[e] << 16), v[2 * e + 1] = from_bits(x.w[e] & 0xffff0000u);
  }
}
DEV void set_results(void* p, int type, i64 i, const float (&v)[8]) {
  Piece x, y;
  if (type == F32) {
    UNROLL for (int e = 0; e < 4; e++) x.w[e] = bits(v[e]), y.w[e] = bits(v[4 + e]);
    Piece* to = (Piece*)((float*)p + i);
    to[0] = x, to[1] = y;
  } else {
    UNROLL for (int e = 0; e < 4; e++) x.w[e] = pack2(v[2 * e], v[2 * e + 1]);
    *(Piece*)((uint16_t*)p + i) = x;
  }
}
DEV void get_as_is(float (&v)[8], const Vec& x, i64 i) { get_as_is(v, x.p, x.type, i); }
DEV void get_as_is(float (&v)[8], const Mat& x, i64 r, int c) { get_as_is(v, x.p, x.type, r * x.stride + c); }
DEV void set_results(const Mat& x, i64 r, int c, const float (&v)[8]) { set_results(x.p, x.type, r * x.stride + c, v); }
// And of one element.
DEV void get_as_is(float (&v)[1], const Vec& x, i64 i) { get(v, x, i); }
DEV void get_as_is(float (&v)[1], const Mat& x, i64 r, int c) { get(v, x, r, c); }
DEV void set_results(const Mat& x, i64 r, int c, const float (&v)[1]) { set(x, r, c, v); }

// wide: whether operands can be taken in pieces of eight. What is absent can.
DEV bool wide(const void* p) { return ((uint64_t)p & 15) == 0; }
DEV bool wide(const Vec& x) { return wide(x.p); }
DEV bool wide(const Mat& x) { return wide(x.p) && (!x.p || (x.stride & 7) == 0); }
template <class A, class B, class... C> DEV bool wide(const A& a, const B& b, const C&... c) {
  if constexpr (sizeof...(c)) return wide(a) && wide(b, c...);
  else return wide(a) && wide(b);
}

// split is quotient and rest.
DEV void split(i64 i, i64 n, i64* q, i64* r) {
  if (((uint64_t)i | (uint64_t)n) >> 32) {
    *q = i / n, *r = i % n;
  } else {
    uint32_t u = (uint32_t)i / (uint32_t)n;
    *q = u, *r = (uint32_t)i - u * (uint32_t)n;
  }
}

DEV i64 split(i64 i, i64 n) {
  i64 q, r;
  return split(i, n, &q, &r), q;
}

// each_piece calls f(row, column) for every piece of W columns.
template <int W, class F> DEV void each_piece(i64 rows, int cols, F f) {
  i64 n = cols / W, total = rows * n;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 r, c;
    split(i, n, &r, &c);
    f(r, (int)c * W);
  }
}

// An element as it lies in memory, and its number: apart, so that nothing waits for what is read ahead.
DEV uint32_t raw(const void* p, int type, i64 i) { return type == F32 ? ((const uint32_t*)p)[i] : ((const uint16_t*)p)[i]; }
DEV uint32_t raw(const Mat& x, i64 r, int c) { return raw(x.p, x.type, r * x.stride + c); }
DEV float value(uint32_t x, int type) { return flush(from_bits(type == F32 ? x : x << 16)); }

// ahead calls use(i, read(i)) for i from lo to hi - 1 in order; N are read before the first is used.
template <int N, class R, class U> DEV void ahead(i64 lo, i64 hi, R read, U use) {
  i64 i = lo;
  for (; i + N <= hi; i += N) {
    decltype(read(lo)) x[N];
    UNROLL for (int k = 0; k < N; k++) x[k] = read(i + k);
    UNROLL for (int k = 0; k < N; k++) use(i + k, x[k]);
  }
  for (; i < hi; i++) use(i, read(i));
}

// row_sum is warp_sum (device.h) with elements read ahead: f(read(i), i, lane) gives the lane with it added.
template <class R, class F> DEV float row_sum(int n, R read, F f) {
  int lane = threadIdx.x & 31, i = lane;
  float x = 0, y = 0;
  for (; i + 15 * 32 < n; i += 16 * 32) {
    decltype(read(i)) v[16];
    UNROLL for (int k = 0; k < 16; k++) v[k] = read(i + 32 * k);
    UNROLL for (int k = 0; k < 16; k += 2) x = f(v[k], i + 32 * k, x), y = f(v[k + 1], i + 32 * (k + 1), y);
  }
  for (; i < n; i += 64) {
    x = f(read(i), i, x);
    if (i + 32 < n) y = f(read(i + 32), i + 32, y);
  }
  return tree(x, y);
}
// row_largest is warp_largest with elements read ahead.
template <class R, class F> DEV float row_largest(int n, R read, F f) {
  float m = -inf();
  int lane = threadIdx.x & 31;
  ahead<16>(0, n > lane ? (n - lane + 31) / 32 : 0, [&](i64 k) { return read(lane + 32 * (int)k); }, [&](i64 k, uint32_t x) {
    float v = f(x, lane + 32 * (int)k);
    if (v > m) m = v;
  });
  return largest_of(m);
}
// row_sum64 is warp_sum64 with elements read ahead.
template <class R, class F> DEV double row_sum64(i64 n, R read, F f) {
  double x = 0;
  i64 lane = threadIdx.x & 31;
  ahead<16>(0, n > lane ? (n - lane + 31) / 32 : 0, [&](i64 k) { return read(lane + 32 * k); },
            [&](i64 k, const decltype(read(lane))& u) { x = __dadd_rn(x, (double)f(u, lane + 32 * k)); });
  return tree64(x);
}

// The row of this warp, and the sample that a row belongs to.
DEV i64 warp_row() { return (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }
DEV i64 sample_of(i64 row, i64 per) { return per > 0 ? split(row, per) : 0; }
struct Two { uint32_t x, y; };  // two raw elements that are read together
