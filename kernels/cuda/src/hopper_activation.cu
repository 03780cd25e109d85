// hopper_activation.cu: Unary and GLU of activations with a gate, whose results are bf16, and their gradients: the kernels
// of elementwise.cu and mix.cu, with the bits of the epilogue of hopper_product.cu.
#include "activation.h"
#include "hopper_activation.h"

template <int W> DEV void near_unary(const UnaryArgs& a) {
  each<W>(a.n, [&](i64 i) {
    float x[W];
    get(x, a.x, i);
    gate_near(a.op, x);
    set(a.y, i, x);
  });
}
KERNEL(hopper_unary, UnaryArgs, 256) {
  if (a.n % 8 == 0 && wide(a.x, a.y))
    near_unary<8>(a);
  else
    near_unary<1>(a);
}
template <int W> DEV void near_unary_back(const UnaryArgs& a) {
  each<W>(a.n, [&](i64 i) {
    float x[W], d[W], g[W], y[W];
    get(x, a.x, i), get(d, a.dy, i);
    gate_grads(a.op, x, g, y);
    UNROLL for (int e = 0; e < W; e++) d[e] = mul(d[e], g[e]);
    set(a.y, i, d);
  });
}
KERNEL(hopper_unary_backward, UnaryArgs, 256) {
  if (a.n % 8 == 0 && wide(a.x, a.dy, a.y))
    near_unary_back<8>(a);
  else
    near_unary_back<1>(a);
}
template <int W> DEV void near_glu(const MixArgs& a) {
  each_piece<W>(a.x.rows, a.x.cols, [&](i64 r, int c) {
    float x[W], g[W];
    get(x, a.x, r, c), get(g, a.g, r, c);
    gate_near(a.op, g);
    UNROLL for (int e = 0; e < W; e++) x[e] = mul(x[e], g[e]);
    set(a.y, r, c, x);
  });
}
KERNEL(hopper_glu, MixArgs, 256) {
  if (a.x.cols % 8 == 0 && wide(a.x, a.y, a.g))
    near_glu<8>(a);
  else
    near_glu<1>(a);
}
template <int W> DEV void near_glu_back(const MixArgs& a) {
  each_piece<W>(a.dy.rows, a.dy.cols, [&](i64 r, int c) {
    float d[W], x[W], g[W], dg[W], y[W];
    get(d, a.dy, r, c), get(x, a.x, r, c), get(g, a.g, r, c);
    gate_grads(a.op, g, dg, y);
    UNROLL for (int e = 0; e < W; e++) dg[e] = mul(mul(d[e], x[e]), dg[e]), d[e] = mul(d[e], y[e]);
    if (a.dx.p) set(a.dx, r, c, d);
    if (a.dg.p) set(a.dg, r, c, dg);
  });
}
KERNEL(hopper_glu_backward, MixArgs, 256) {
  if (a.dy.cols % 8 == 0 && wide(a.dy, a.x, a.g, a.dx, a.dg))
    near_glu_back<8>(a);
  else
    near_glu_back<1>(a);
}
