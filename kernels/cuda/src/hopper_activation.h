// hopper_activation.h: activations x·sigmoid(z) of N elements (functions.h) whose powers of two and reciprocals come from
// the special unit: within 2^-20 of |x|. There are no branches, so that the elements' instructions lie beside each other.
#pragma once
#include "hopper.h"

DEV bool gates(int op) { return op == GELU_TANH || op == QUICK_GELU || op == SILU; }
// sigmoids are those of an activation's arguments.
template <int N> DEV void sigmoids(int op, const float (&x)[N], float (&s)[N]) {
  float by = op == QUICK_GELU ? -QUICK_K * LOG2E : -LOG2E;
  if (op == GELU_TANH)
    UNROLL for (int e = 0; e < N; e++) s[e] = mul(x[e], fma_(mul(x[e], x[e]), -GELU_B * LOG2E, -GELU_A * LOG2E));
  else
    UNROLL for (int e = 0; e < N; e++) s[e] = mul(x[e], by);
  UNROLL for (int e = 0; e < N; e++) s[e] = reciprocal_near(add(1, exp2_unit(s[e])));
}
template <int N> DEV void gate_near(int op, float (&x)[N]) {
  float s[N];
  sigmoids(op, x, s);
  UNROLL for (int e = 0; e < N; e++) x[e] = mul(x[e], s[e]);
}
// gate_grads are the derivatives, and y the activations.
template <int N> DEV void gate_grads(int op, const float (&x)[N], float (&d)[N], float (&y)[N]) {
  float s[N], k = op == QUICK_GELU ? QUICK_K : 1;
  sigmoids(op, x, s);
  UNROLL for (int e = 0; e < N; e++) {
    float dz = op == GELU_TANH ? fma_(mul(x[e], x[e]), 3 * GELU_B, GELU_A) : k;
    y[e] = mul(x[e], s[e]);
    d[e] = fma_(mul(x[e], dz), mul(s[e], sub(1, s[e])), s[e]);
  }
}
// activate_near is activate, where an activation with a gate is near.
template <int N> DEV void activate_near(int op, float (&x)[N]) {
  if (gates(op)) return gate_near(op, x);
  ROLLED for (int e = 0; e < N; e++) {
    float v = x[0];
    UNROLL for (int k = 1; k < N; k++)
      if (k == e) v = x[k];
    v = activate(op, v);
    UNROLL for (int k = 0; k < N; k++)
      if (k == e) x[k] = v;
  }
}
