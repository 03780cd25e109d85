// functions.h: exp, log and the activations, term by term as in ref/exp.go, ref/log.go and
// ref/activations.go, which say where the polynomials come from. Equal bits are the test.
#pragma once
#include "device.h"

const float LOG2E = 1.44269504088896341f, LN2_HI = 0.693359375f, LN2_LO = -2.12194440e-4f;
const float EXP_MIN = -87.33654f, EXP_MAX = 88.72283f;

template <int N> DEV float horner(const float (&p)[N], float x) {
  float y = p[0];
  UNROLL for (int i = 1; i < N; i++) y = fma_(y, x, p[i]);
  return y;
}
DEV float round_even(float x) { return sub(add(x, 12582912.f), 12582912.f); }
DEV float power2(float n) { return from_bits((uint32_t)((int)n + 127) << 23); }

CALLED float exp_(float x) {
  if (nan(x)) return x;
  if (x > EXP_MAX) return inf();
  if (x < EXP_MIN) return 0;
  const float q[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  float n = round_even(mul(x, LOG2E));
  float r = fma_(n, -LN2_HI, x);
  r = fma_(n, -LN2_LO, r);
  float y = add(fma_(horner(q, r), mul(r, r), r), 1);
  float h = round_even(mul(n, 0.5f));
  return mul(mul(y, power2(h)), power2(sub(n, h)));
}
// 2^x for x <= 0: short for bf16 attention, exp2_ to fp32's accuracy.
DEV float exp2_short_inline(float x) {
  if (nan(x)) return x;
  if (!(x >= -126)) return 0;
  const float p[5] = {0.013426702f, 0.052242447f, 0.24128021f, 0.69304484f, 1};
  float n = floorf(x);
  return mul(horner(p, sub(x, n)), power2(n));
}
CALLED float exp2_short(float x) { return exp2_short_inline(x); }
CALLED float exp2_(float x) {
  if (nan(x)) return x;
  if (!(x >= -126)) return 0;
  const float q[6] = {0.000153533634f, 0.0013398875f, 0.00961843692f, 0.0555033237f, 0.240226477f, 0.693147182f};
  float n = round_even(x), f = sub(x, n);
  return mul(fma_(horner(q, f), f, 1), power2(n));
}
CALLED float log_(float x) {
  x = flush(x);
  if (nan(x) || x < 0) return from_bits(0x7fc00000u);
  if (x == 0) return -inf();
  if (x == inf()) return x;
  const float c[9] = {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                      -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
  uint32_t b = bits(x);
  int e = (int)(b - 0x3f3504f3u) >> 23;
  float f = sub(from_bits(b - ((uint32_t)e << 23)), 1), n = (float)e, z = mul(f, f);
  float p = mul(mul(horner(c, f), f), z);
  p = fma_(n, LN2_LO, p);
  p = fma_(-0.5f, z, p);
  return fma_(n, LN2_HI, add(f, p));
}

enum { IDENTITY, GELU_TANH, GELU_ERF, QUICK_GELU, SILU, RELU, SIGMOID, TANH, EXP, SQUARE };

const float GELU_A = 1.5957691216f, GELU_B = 0.0713548162f, QUICK_K = 1.702f;

DEV float gated(float x, float z) { return quotient(x, add(1, exp_(-z))); }
DEV float gated_grad(float x, float z, float dz) {
  float s = gated(1, z);
  return fma_(mul(x, dz), mul(s, sub(1, s)), s);
}
DEV float gelu_argument(float x) { return mul(x, fma_(mul(x, x), GELU_B, GELU_A)); }
DEV float normal_cdf(float x) {
  const float c[10] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
  float z = mul(from_bits(bits(x) & 0x7fffffffu), 0.70710678119f);
  float t = quotient(1, fma_(z, 0.5f, 1));
  float half = mul(mul(t, 0.5f), exp_(fma_(-z, z, horner(c, t))));
  return x > 0 ? sub(1, half) : half;
}
CALLED float activate(int op, float x) {
  x = flush(x);
  switch (op) {
    case GELU_TANH: return gated(x, gelu_argument(x));
    case GELU_ERF: return mul(x, normal_cdf(x));
    case QUICK_GELU: return gated(x, mul(x, QUICK_K));
    case SILU: return gated(x, x);
    case RELU: return larger(0, x);
    case SIGMOID: return gated(1, x);
    case TANH: return sub(1, quotient(2, add(1, exp_(mul(x, 2)))));
    case EXP: return exp_(x);
    case SQUARE: return mul(x, x);
  }
  return x;
}
CALLED float activate_grad(int op, float x) {
  x = flush(x);
  switch (op) {
    case GELU_TANH: return gated_grad(x, gelu_argument(x), fma_(mul(x, x), 3 * GELU_B, GELU_A));
    case GELU_ERF: return fma_(mul(x, 0.39894228040f), exp_(mul(mul(x, -0.5f), x)), normal_cdf(x));
    case QUICK_GELU: return gated_grad(x, mul(x, QUICK_K), QUICK_K);
    case SILU: return gated_grad(x, x, 1);
    case RELU: return x > 0 ? 1.f : 0.f;
    case SIGMOID: {
      float s = gated(1, x);
      return mul(s, sub(1, s));
    }
    case TANH: {
      float t = activate(TANH, x);
      return fma_(-t, t, 1);
    }
    case EXP: return exp_(x);
    case SQUARE: return mul(2, x);
  }
  return 1;
}
