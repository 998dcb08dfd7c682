/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of gpu_kernels.cu as nvcc made them, for cuModuleLoadData(). Where there was no nvcc
 * (no_image.c) gpu_image_bytes is 0. Constant.
 */
#ifndef GPU_GPU_IMAGE_H
#define GPU_GPU_IMAGE_H

extern const unsigned char gpu_image[];
extern const unsigned gpu_image_bytes;

#endif
