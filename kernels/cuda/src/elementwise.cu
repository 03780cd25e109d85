// elementwise.cu: functions of single elements, and copies of boxes. One thread an element, or eight
// that lie together, grid-stride; the terms are those of ref/elementwise.go and ref/copy.go.
#include "activation.h"

template <int W> DEV void unary_of(const UnaryArgs& a) {
  each<W>(a.n, [&](i64 i) {
    float x[W];
    get(x, a.x, i);
    UNROLL for (int e = 0; e < W; e++) x[e] = activate(a.op, x[e]);
    set(a.y, i, x);
  });
}
KERNEL(unary, UnaryArgs, 256) {
  if (a.n % 8 == 0 && wide(a.x, a.y))
    unary_of<8>(a);
  else
    unary_of<1>(a);
}
template <int W> DEV void unary_back(const UnaryArgs& a) {
  each<W>(a.n, [&](i64 i) {
    float x[W], d[W];
    get(x, a.x, i), get(d, a.dy, i);
    UNROLL for (int e = 0; e < W; e++) d[e] = mul(d[e], activate_grad(a.op, x[e]));
    set(a.y, i, d);
  });
}
KERNEL(unary_backward, UnaryArgs, 256) {
  if (a.n % 8 == 0 && wide(a.x, a.dy, a.y))
    unary_back<8>(a);
  else
    unary_back<1>(a);
}

struct BinaryArgs { Vec x, y, z; i64 n; int op, pad; };
template <int W> DEV void binary_of(const BinaryArgs& a) {
  each<W>(a.n, [&](i64 i) {
    i64 row, j = i;  // y is repeated
    if (a.y.n != a.n) split(i, a.y.n, &row, &j);
    float x[W], y[W];
    get(x, a.x, i), get(y, a.y, j);
    UNROLL for (int e = 0; e < W; e++)
      x[e] = a.op == 0 ? add(x[e], y[e]) : a.op == 1 ? sub(x[e], y[e]) : a.op == 2 ? mul(x[e], y[e]) : quotient(x[e], y[e]);
    set(a.z, i, x);
  });
}
KERNEL(binary, BinaryArgs, 256) {
  if (a.n % 8 == 0 && a.y.n % 8 == 0 && wide(a.x, a.y, a.z))
    binary_of<8>(a);
  else
    binary_of<1>(a);
}

struct AxpbyArgs { Vec x, y; i64 n; float ca, cb; };
template <int W> DEV void axpby_of(const AxpbyArgs& a) {
  each<W>(a.n, [&](i64 i) {
    float x[W], y[W];
    get(x, a.x, i);
    if (a.cb != 0) get(y, a.y, i);
    UNROLL for (int e = 0; e < W; e++) {
      x[e] = mul(a.ca, x[e]);
      if (a.cb != 0) x[e] = fma_(a.cb, y[e], x[e]);
    }
    set(a.y, i, x);
  });
}
KERNEL(axpby, AxpbyArgs, 256) {
  if (a.n % 8 == 0 && wide(a.x, a.y))
    axpby_of<8>(a);
  else
    axpby_of<1>(a);
}

struct FillArgs { Vec y; float value; int pad; };
template <int W> DEV void fill_with(const FillArgs& a) {
  float v[W];
  UNROLL for (int e = 0; e < W; e++) v[e] = a.value;
  each<W>(a.y.n, [&](i64 i) { set(a.y, i, v); });
}
KERNEL(fill, FillArgs, 256) {
  if (a.y.n % 8 == 0 && wide(a.y))
    fill_with<8>(a);
  else
    fill_with<1>(a);
}

struct AdamWArgs {
  float *p, *g, *m, *v;
  i64 n;
  float scale, c1, c2, beta2, keep, step, root_scale, eps;
};
KERNEL(adamw, AdamWArgs, 256) {
  for (i64 i = thread_index(); i < a.n; i += thread_count()) {
    float g = mul(a.g[i], a.scale), m = a.m[i], v;
    m = fma_(a.c1, sub(g, m), flush(m));
    v = fma_(a.c2, mul(g, g), mul(a.beta2, a.v[i]));
    a.m[i] = m, a.v[i] = v;
    a.p[i] = sub(mul(a.p[i], a.keep), quotient(mul(a.step, m), fma_(root(v), a.root_scale, a.eps)));
  }
}

// number and write are elements of any of three types, in fp32.
DEV float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return from_bits(sign | 0x7f800000u | m << 13);
  if (e == 0) return from_bits(sign | bits((float)m * 5.9604644775390625e-8f));
  return from_bits(sign | (e + 112) << 23 | m << 13);
}
DEV uint16_t to_f16(float x) {
  uint32_t u = bits(x), v = u & 0x7fffffffu;
  uint16_t sign = (uint16_t)(u >> 16) & 0x8000;
  if (v > 0x7f800000u) return sign | 0x7e00 | ((v >> 13) & 0x3ff);
  if (v >= 0x477ff000u) return sign | 0x7c00;
  if (v < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, by adding what pushes the rest out
    return sign | (uint16_t)(bits(add(from_bits(v), 0.5f)) & 0x7ff);
  }
  v += 0xfff + (v >> 13 & 1);
  return sign | (uint16_t)((v - (112u << 23)) >> 13);
}
DEV float number(const void* p, int type, i64 i) { return type == F16 ? from_f16(((const uint16_t*)p)[i]) : load(p, type, i); }
DEV void write(void* p, int type, i64 i, float x) {
  if (type == F16)
    ((uint16_t*)p)[i] = to_f16(x);
  else
    store(p, type, i, x);
}

// A copy's axes: those of `outer` are spread over threads; those of `inner`, whose
// destinations are the same (a stride of zero), are walked in order by each.
const int EIGHT = -8;
struct CopyArgs {
  void *src, *dst;
  i64 n[10], from[10], to[10];  // outer axes 0 to 4, inner axes 5 to 9; an unused one is 1 long
  i64 outer, inner;
  // size: the bytes that are moved as they are, of an element or of 16 bytes of them; 0 where numbers are
  // written in another type or added, EIGHT where eight of them are, which lie together.
  int src_type, dst_type, size, accumulate;
};
DEV void copy_box(const CopyArgs& a) {
  for (i64 k = thread_index(); k < a.outer; k += thread_count()) {
    i64 src = 0, dst = 0, left = k;
    UNROLL for (int i = 4; i >= 0; i--) {
      if (a.n[i] == 1) continue;
      i64 x;
      split(left, a.n[i], &left, &x);
      src += x * a.from[i], dst += x * a.to[i];
    }
    for (i64 j = 0; j < a.inner; j++) {
      i64 s = src;
      left = j;
      if (a.inner > 1) UNROLL for (int i = 9; i >= 5; i--) {
        i64 x;
        split(left, a.n[i], &left, &x);
        s += x * a.from[i];
      }
      switch (a.size) {
        case 1: ((uint8_t*)a.dst)[dst] = ((const uint8_t*)a.src)[s]; break;
        case 2: ((uint16_t*)a.dst)[dst] = ((const uint16_t*)a.src)[s]; break;
        case 4: ((uint32_t*)a.dst)[dst] = ((const uint32_t*)a.src)[s]; break;
        case 8: ((uint64_t*)a.dst)[dst] = ((const uint64_t*)a.src)[s]; break;
        case 16: ((Piece*)a.dst)[dst] = ((const Piece*)a.src)[s]; break;
        case EIGHT: {
          float v[8], w[8];
          get(v, a.src, a.src_type, 8 * s);
          if (a.accumulate) {
            get(w, a.dst, a.dst_type, 8 * dst);
            UNROLL for (int e = 0; e < 8; e++) v[e] = add(w[e], v[e]);
          }
          set(a.dst, a.dst_type, 8 * dst, v);
          break;
        }
        default: {
          float v = number(a.src, a.src_type, s);
          if (a.accumulate) v = add(number(a.dst, a.dst_type, dst), v);
          write(a.dst, a.dst_type, dst, v);
        }
      }
    }
  }
}
// Boxes that do not touch one another: the grid's y is the box.
struct CopiesArgs { CopyArgs boxes[8]; };
KERNEL(copy, CopiesArgs, 256) { copy_box(a.boxes[blockIdx.y]); }

struct UpsampleArgs { void *x, *y; i64 n, h, w, c; int factor, x_type, y_type, size; };
KERNEL(upsample, UpsampleArgs, 256) {  // channels in units of size bytes: elements, or 16 bytes of them
  i64 wide = a.w * a.factor, total = a.n * a.h * a.factor * wide * a.c;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 t, c, col, row;
    split(i, a.c, &t, &c), split(t, wide, &row, &col);
    i64 from = (split(row, a.factor) * a.w + split(col, a.factor)) * a.c + c;
    switch (a.size) {
      case 2: ((uint16_t*)a.y)[i] = ((const uint16_t*)a.x)[from]; break;
      case 4: ((uint32_t*)a.y)[i] = ((const uint32_t*)a.x)[from]; break;
      case 16: ((Piece*)a.y)[i] = ((const Piece*)a.x)[from]; break;
      default: store(a.y, a.y_type, i, load(a.x, a.x_type, from));
    }
  }
}
KERNEL(upsample_backward, UpsampleArgs, 256) {  // x is DX, y is DY
  i64 wide = a.w * a.factor, total = a.n * a.h * a.w * a.c;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 left, c, col, row;
    split(i, a.c, &left, &c), split(left, a.w, &row, &col);
    float sum = 0;
    for (int t = 0; t < a.factor * a.factor; t++)
      sum = add(sum, load(a.y, a.y_type, ((row * a.factor + t / a.factor) * wide + col * a.factor + t % a.factor) * a.c + c));
    store(a.x, a.x_type, i, sum);
  }
}

// Normal: philox and Box-Muller as in package rng, products and sums rounded apart.
struct NormalArgs { Vec y; uint64_t key, stream, start; };
DEV float split_horner(const float* p, int n, float x) {
  float y = p[0];
  for (int i = 1; i < n; i++) y = add(mul(y, x), p[i]);
  return y;
}
DEV float radius(uint32_t x) {
  const float c[9] = {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                      -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
  float u = add(mul((float)x, 2.3283064365386963e-10f), 1.1641532182693481e-10f);
  uint32_t b = bits(u);
  int e = (int)(b - 0x3f3504f3u) >> 23;
  float f = sub(from_bits(b - ((uint32_t)e << 23)), 1);
  if (e == 0) f = -add(mul((float)~x, 2.3283064365386963e-10f), 1.1641532182693481e-10f);
  float n = (float)e, z = mul(f, f), p = split_horner(c, 9, f);
  p = mul(mul(p, f), z);
  p = add(mul(n, LN2_LO), p);
  p = sub(p, mul(0.5f, z));
  return root(mul(-2, add(mul(n, LN2_HI), add(f, p))));
}
DEV void circle(uint32_t y, float* sine, float* cosine) {
  const float sp[3] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f}, turn = 1.4629180792671596e-9f;
  const float cp[3] = {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f};
  uint32_t w = y + (1u << 29), quarter = w >> 30;
  float t = add(mul((float)(int)(y - (quarter << 30)), turn), turn / 2), z = mul(t, t);
  float s = add(t, mul(mul(split_horner(sp, 3, z), z), t));
  float c = add(sub(mul(mul(split_horner(cp, 3, z), z), z), mul(0.5f, z)), 1);
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}
KERNEL(normal, NormalArgs, 256) {
  for (i64 i = thread_index(); i < a.y.n; i += thread_count()) {
    uint64_t at = a.start + (uint64_t)i, block = at / 4;
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)a.stream, c3 = (uint32_t)(a.stream >> 32);
    uint32_t k0 = (uint32_t)a.key, k1 = (uint32_t)(a.key >> 32);
    for (int r = 0; r < 10; r++) {
      uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
      c0 = (uint32_t)(q >> 32) ^ c1 ^ k0, c1 = (uint32_t)q;
      c2 = (uint32_t)(p >> 32) ^ c3 ^ k1, c3 = (uint32_t)p;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    bool second = at & 2;
    float s, c, r = radius(second ? c2 : c0);
    circle(second ? c3 : c1, &s, &c);
    put(a.y, i, mul(r, at & 1 ? c : s));
  }
}
