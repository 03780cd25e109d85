// hopper.cu: the kernels for compute capability 9.0 alone, a translation unit and an image of their own.
#define CALLED DEV  // a call would make the compiler wait for each product
#include "hopper_attention.cu"
#include "hopper_backward.cu"
#include "hopper_product.cu"
#include "hopper_gradient.cu"
#include "hopper_activation.cu"
