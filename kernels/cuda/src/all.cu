// all.cu: every kernel, one translation unit.
#include "elementwise.cu"
#include "rows.cu"
#include "groupnorm.cu"
#include "product.cu"
#include "tensor.cu"
#include "tensor_attention.cu"
