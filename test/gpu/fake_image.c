/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the kernels, for tests with fake_cuda.c: that driver has its own, whatever it is
 * asked to load. Constant.
 */
#include "gpu/gpu_image.h"

const unsigned char gpu_image[1] = {1};
const unsigned gpu_image_bytes = 1;
