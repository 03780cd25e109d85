// unpack.cu: compressed weights in full. A thread takes eight elements of a row where codes and blocks lie so, and else
// one. The table lies in shared memory: its 16 values in banks of their own, so that lanes do not wait for each other.
#include "pieces.h"

// Arithmetic with denormals, unlike that of other kernels: values are those of ref/unpack.go.
#ifdef DK_HOST
DEV float mul_ieee(float x, float y) { return dk::ieee([](float u, float v) { return u * v; }, x, y); }
DEV float sub_ieee(float x, float y) { return dk::ieee([](float u, float v) { return u - v; }, x, y); }
#else
DEV float mul_ieee(float x, float y) {
  float z;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
DEV float sub_ieee(float x, float y) {
  float z;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#endif
// narrow_ieee is narrow with denormals.
DEV uint32_t narrow_ieee(float x) {
  uint32_t u = bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
DEV uint32_t narrow_to(int type, float x) { return type == BF16 ? narrow_ieee(x) : to_f16(x); }

struct Blocks {
  const float* p;
  i64 flat;
  int rows, across, per_row, shift;  // shift: flat is 1 << shift, or it is below 0
};
struct UnpackArgs {
  const unsigned char* codes;
  const float* table;
  Blocks scale, min;
  Mat dst;
  i64 n;
  float over;
  int bits, low, pieces;
};
// block is that of element e, which is (row, column).
DEV i64 block(const Blocks& b, i64 e, int row, int column) {
  if (b.flat) return b.shift >= 0 ? e >> b.shift : e / b.flat;
  return (i64)(b.rows ? row / b.rows : 0) * b.per_row + (b.across ? column / b.across : 0);
}
template <int BITS, int W> DEV void unpack_of(const UnpackArgs& a, const float* table) {
  each<W>(a.n, [&](i64 e) {
    i64 row, column;
    split(e, a.dst.cols, &row, &column);
    float scale = a.scale.p[block(a.scale, e, row, column)], min = a.min.p ? a.min.p[block(a.min, e, row, column)] : 0;
    uint32_t codes[2] = {0, 0};  // code k in its place from below
    if constexpr (W == 1) {
      codes[0] = BITS == 8 ? a.codes[e] : a.codes[e / 2] >> ((e & 1) == a.low ? 4 : 0) & 15;
    } else if constexpr (BITS == 8) {
      codes[0] = ((const uint32_t*)(a.codes + e))[0], codes[1] = ((const uint32_t*)(a.codes + e))[1];
    } else {
      uint32_t u = *(const uint32_t*)(a.codes + e / 2);
      codes[0] = a.low ? u : (u >> 4 & 0x0f0f0f0fu) | (u & 0x0f0f0f0fu) << 4;
    }
    float v[W];
    UNROLL for (int k = 0; k < W; k++) {
      uint32_t code = BITS == 8 ? codes[k / 4] >> (8 * (k & 3)) & 255 : codes[0] >> (4 * k) & 15;
      v[k] = mul_ieee(table[code], scale);
      if (a.over != 0) v[k] = mul_ieee(v[k], a.over);
      if (a.min.p) v[k] = sub_ieee(v[k], min);
    }
    i64 to = row * a.dst.stride + column;
    if constexpr (W == 1) {
      if (a.dst.type == F32)
        ((float*)a.dst.p)[to] = v[0];
      else
        ((uint16_t*)a.dst.p)[to] = (uint16_t)narrow_to(a.dst.type, v[0]);
    } else if (a.dst.type == F32) {
      Piece x, y, *p = (Piece*)((float*)a.dst.p + to);
      UNROLL for (int k = 0; k < 4; k++) x.w[k] = bits(v[k]), y.w[k] = bits(v[4 + k]);
      p[0] = x, p[1] = y;
    } else {
      Piece x;
      UNROLL for (int k = 0; k < 4; k++) x.w[k] = narrow_to(a.dst.type, v[2 * k]) | narrow_to(a.dst.type, v[2 * k + 1]) << 16;
      *(Piece*)((uint16_t*)a.dst.p + to) = x;
    }
  });
}
KERNEL(unpack, UnpackArgs, 256) {
  SHARED(float, table);
  for (int i = threadIdx.x; i < 1 << a.bits; i += blockDim.x) table[i] = a.table[i];
  __syncthreads();
  if (a.bits == 4) {
    if (a.pieces)
      unpack_of<4, 8>(a, table);
    else
      unpack_of<4, 1>(a, table);
  } else {
    if (a.pieces)
      unpack_of<8, 8>(a, table);
    else
      unpack_of<8, 1>(a, table);
  }
}
