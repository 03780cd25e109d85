// activation.h: what the kernels of activations take: those of elementwise.cu and mix.cu, and Hopper's
// (hopper_activation.cu).
#pragma once
#include "pieces.h"

struct UnaryArgs { Vec x, dy, y; i64 n; int op, pad; };
// Modulate, Gated and GLU. b is the scale, the residual or the gate's half; g the shift or the gate.
struct MixArgs { Mat x, y, b, g, dy, dx, db, dg; i64 per; int op, pad; };
