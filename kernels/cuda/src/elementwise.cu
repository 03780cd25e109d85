// elementwise.cu: functions of single elements, and copies of boxes. One thread an element,
// grid-stride; the terms are those of ref/elementwise.go and ref/copy.go.
#include "functions.h"

struct UnaryArgs { Vec x, dy, y; i64 n; int op, pad; };
KERNEL(unary, UnaryArgs, 256) {
  for (i64 i = thread_index(); i < a.n; i += thread_count()) put(a.y, i, activate(a.op, at(a.x, i)));
}
KERNEL(unary_backward, UnaryArgs, 256) {
  for (i64 i = thread_index(); i < a.n; i += thread_count()) put(a.y, i, mul(at(a.dy, i), activate_grad(a.op, at(a.x, i))));
}

struct BinaryArgs { Vec x, y, z; i64 n; int op, pad; };
KERNEL(binary, BinaryArgs, 256) {
  for (i64 i = thread_index(); i < a.n; i += thread_count()) {
    float x = at(a.x, i), y = at(a.y, i % a.y.n);
    put(a.z, i, a.op == 0 ? add(x, y) : a.op == 1 ? sub(x, y) : a.op == 2 ? mul(x, y) : quotient(x, y));
  }
}

struct AxpbyArgs { Vec x, y; i64 n; float ca, cb; };
KERNEL(axpby, AxpbyArgs, 256) {
  for (i64 i = thread_index(); i < a.n; i += thread_count()) {
    float v = mul(a.ca, at(a.x, i));
    if (a.cb != 0) v = fma_(a.cb, at(a.y, i), v);
    put(a.y, i, v);
  }
}

struct FillArgs { Vec y; float value; int pad; };
KERNEL(fill, FillArgs, 256) {
  for (i64 i = thread_index(); i < a.y.n; i += thread_count()) put(a.y, i, a.value);
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
struct CopyArgs {
  void *src, *dst;
  i64 n[10], from[10], to[10];  // outer axes 0 to 4, inner axes 5 to 9; an unused one is 1 long
  i64 outer, inner;
  int src_type, dst_type, size, accumulate;  // size: of an element that is moved as it is; 0 for a cast
};
KERNEL(copy, CopyArgs, 256) {
  for (i64 k = thread_index(); k < a.outer; k += thread_count()) {
    i64 src = 0, dst = 0, left = k;
    UNROLL for (int i = 4; i >= 0; i--) {
      i64 x = left % a.n[i];
      left /= a.n[i];
      src += x * a.from[i], dst += x * a.to[i];
    }
    for (i64 j = 0; j < a.inner; j++) {
      i64 s = src;
      left = j;
      if (a.inner > 1) UNROLL for (int i = 9; i >= 5; i--) {
        s += left % a.n[i] * a.from[i];
        left /= a.n[i];
      }
      switch (a.size) {
        case 1: ((uint8_t*)a.dst)[dst] = ((const uint8_t*)a.src)[s]; break;
        case 2: ((uint16_t*)a.dst)[dst] = ((const uint16_t*)a.src)[s]; break;
        case 4: ((uint32_t*)a.dst)[dst] = ((const uint32_t*)a.src)[s]; break;
        case 8: ((uint64_t*)a.dst)[dst] = ((const uint64_t*)a.src)[s]; break;
        default: {
          float v = number(a.src, a.src_type, s);
          if (a.accumulate) v = add(number(a.dst, a.dst_type, dst), v);
          write(a.dst, a.dst_type, dst, v);
        }
      }
    }
  }
}

struct UpsampleArgs { void *x, *y; i64 n, h, w, c; int factor, x_type, y_type, size; };
KERNEL(upsample, UpsampleArgs, 256) {
  i64 wide = a.w * a.factor, total = a.n * a.h * a.factor * wide * a.c;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 c = i % a.c, col = i / a.c % wide, row = i / a.c / wide;
    i64 from = (row / a.factor * a.w + col / a.factor) * a.c + c;
    if (a.size == 2)
      ((uint16_t*)a.y)[i] = ((const uint16_t*)a.x)[from];
    else if (a.size == 4)
      ((uint32_t*)a.y)[i] = ((const uint32_t*)a.x)[from];
    else
      store(a.y, a.y_type, i, load(a.x, a.x_type, from));
  }
}
KERNEL(upsample_backward, UpsampleArgs, 256) {  // x is DX, y is DY
  i64 wide = a.w * a.factor, total = a.n * a.h * a.w * a.c;
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    i64 c = i % a.c, col = i / a.c % a.w, row = i / a.c / a.w;
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
