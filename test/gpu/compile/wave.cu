/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel over peal/device.h in the simplest way: a block packs Retrieves, rings once, reaps. CUDA
 * and HIP; compile.py compiles it and looks at what came out, nobody runs it.
 */
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif
#include "peal/device.h"

extern "C" __global__ void __launch_bounds__(1024)
	wave(struct peal_device_queue *kept, struct peal_result *res, const struct peal_key *keys,
	     uint32_t nr, int *how)
{
	struct peal_device_queue q = *kept;
	struct peal_lane lane = {(uint32_t)threadIdx.x, (uint32_t)blockDim.x, NULL, NULL};
	struct peal_sqe s;
	int res_of_wave;

	if (!peal_wave_begin(&q, nr))
		return;
	for (uint32_t i = lane.id; i < nr; i += lane.nr) {
		peal_sqe_retrieve(&s, 1, &keys[i], 0);
		peal_sqe_sgl(&s, 0x100000000ull + i * 4096ull, 4096);
		peal_wave_put(&q, i, &s, res);
	}
	peal_wave_ring(&q, &lane);
	res_of_wave = peal_wave_reap(&q, &lane, res, peal_port_ns() + 1000000);
	if (lane.id == 0) {
		*kept = q;
		*how = res_of_wave;
	}
}
