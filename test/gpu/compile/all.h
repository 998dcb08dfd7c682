/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses all of peal/device.h, so that a compiler has to make something of it: a wave by a group, a
 * queue one by one, every builder. C11 and C++17; compile.py compiles it, nobody runs it.
 */
#include "peal/device.h"

uint32_t all_builders(struct peal_sqe *s, const struct peal_key *k, uint64_t *list);
int all_wave(struct peal_device_queue *q, const struct peal_lane *lane, struct peal_result *res);
uint32_t all_one(struct peal_device_queue *q, struct peal_sqe *s);

uint32_t all_builders(struct peal_sqe *s, const struct peal_key *k, uint64_t *list)
{
	struct peal_sqe_range range = {1, 2, PEAL_RETRIEVE_EX_META};

	peal_sqe_flush(s++, 1);
	peal_sqe_store(s, 1, k, PEAL_STORE_IF_ABSENT);
	peal_sqe_prp_list(s++, 4096, 1 << 20, list, 8192);
	peal_sqe_retrieve(s, 1, k, 0);
	peal_sqe_sgl(s++, 4096, 4096);
	peal_sqe_exist(s++, 1, k);
	peal_sqe_delete(s++, 1, k);
	peal_sqe_list(s++, 1, k);
	peal_sqe_store_ex(s++, 1, k, 0);
	peal_sqe_retrieve_ex(s++, 1, k, &range);
	peal_sqe_exec(s++, 1, 1, 64);
	peal_sqe_match(s++, 1, PEAL_MATCH_TOUCH, 0, 0);
	peal_sqe_hint(s++, 1);
	peal_sqe_lease(s, 1, k, 1000);
	peal_sqe_sgl_list(s++, 4096, 2, 8192);
	peal_sqe_release(s, 1, 7);
	return peal_prp_pages(0, 1 << 20);
}

int all_wave(struct peal_device_queue *q, const struct peal_lane *lane, struct peal_result *res)
{
	struct peal_key k = {{1}, 1};
	struct peal_sqe s;

	if (!peal_wave_begin(q, 64))
		return PEAL_WAVE_BAD;
	for (uint32_t i = lane->id; i < 64; i += lane->nr) {
		peal_sqe_exist(&s, 1, &k);
		peal_wave_put(q, i, &s, res);
	}
	peal_wave_ring(q, lane);
	return peal_wave_reap(q, lane, res, peal_port_ns() + 1000000);
}

uint32_t all_one(struct peal_device_queue *q, struct peal_sqe *s)
{
	struct peal_cqe c;

	peal_device_start(q);
	peal_device_bells(q, s, 1, 64);
	if (!peal_device_put(q, s))
		return 0;
	peal_device_ring(q);
	while (!peal_device_reap(q, &c))
		peal_port_pause();
	peal_device_reaped(q);
	return peal_cqe_status(&c);
}
