// faketensormap.h: cuTensorMapEncodeTiled of the double; part of fakecuda.cpp. It holds what is documented of the call.
#pragma once

extern "C" int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const uint64_t* dims, const uint64_t* strides, const unsigned* box,
                                      const unsigned* steps, int interleave, int swizzle, int promotion, int fill) {
  ENTER;
  auto no = [](const char* why) { return fprintf(stderr, "fakecuda: cuTensorMapEncodeTiled: %s\n", why), (int)INVALID_VALUE; };
  if (!map || (P)map % 64) return no("the map does not lie at a multiple of 64");
  if (type != 9) return no("elements that are not bf16");  // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
  if (rank < 1 || rank > 5 || (P)base % 16) return no("one to five dimensions, from a multiple of 16 on");
  if (interleave != 0 || swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill != 0) return no("an interleave, swizzle, promotion or fill that is not known here");
  hopper::Map m = {hopper::MAGIC, (const char*)base, {}, {}, {}, (int)rank, 2, swizzle};
  P extent = 2;
  for (unsigned i = 0; i < rank; i++) {
    if (dims[i] < 1 || dims[i] > 1ull << 32) return no("a dimension of nothing");
    if (box[i] < 1 || box[i] > 256 || steps[i] != 1) return no("a side of a box is 1 to 256, in steps of one here");
    if (i && (strides[i - 1] % 16 || strides[i - 1] == 0 || strides[i - 1] >= 1ull << 40)) return no("a stride is a multiple of 16 below 2^40");
    m.dims[i] = (uint32_t)dims[i], m.box[i] = box[i], extent += (dims[i] - 1) * (i ? strides[i - 1] : 2);
    if (i) m.strides[i - 1] = strides[i - 1];
  }
  unsigned row = box[0] * 2;
  if (row % 16 || (swizzle && row > 16u << swizzle)) return no("a row of a box is pieces of 16 bytes, as many as the swizzle spans");
  if (!on_device(context->device, (P)base, extent)) return no("the tensor reaches beyond an allocation");
  memcpy(map, &m, sizeof m);
  return OK;
}
