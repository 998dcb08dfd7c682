/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake daemon, inside: fake_peald.c is socket, rings and thread; fake_kv.c the controller's
 * commands and the map. Everything here belongs to the fake's thread, except for the knobs.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "nvme/nvme_kv.h"
#include "nvme/vfio_user.h"
#include "peal/vendor.h"

#define FAKE_QUEUES_MAX 64
#define FAKE_MAPS_MAX 256
#define FAKE_ENTRIES_MAX 4096
#define FAKE_ARENA_BYTES (512ull << 20)
#define FAKE_VECTORS (FAKE_QUEUES_MAX + 1)
#define FAKE_NS_MAX 8

struct fake_entry {
	uint8_t key[16];
	uint8_t key_len;
	uint32_t bytes;
	uint64_t at; /* in the arena */
	uint64_t version;
	struct peal_store_ex ex;
	uint64_t *seals;
};

struct fake_queue {
	uint8_t *sq, *cq;
	uint32_t sq_size, sq_head, cq_size, cq_tail, phase;
	uint32_t vector;
	bool has_irq;
};

struct fake_map {
	uint64_t iova, bytes;
	uint8_t *ptr;
};

struct fake {
	char dir[64], path[80], uri[96];
	uint32_t nr_queues;
	bool no_vendor, no_sgl, no_arena, no_stride;
	bool is_silent; /* the client: it has no use for wake_fd */
	pthread_t thread;
	int listen_fd, client_fd, ctl_fd, wake_fd, bar_fd, arena_fd;
	uint8_t *bar, *arena;
	uint64_t arena_next;
	uint32_t stride;

	struct fake_map maps[FAKE_MAPS_MAX];
	struct fake_queue q[FAKE_QUEUES_MAX + 1];
	int irqs[FAKE_VECTORS];
	uint32_t cc, csts, aqa;
	uint64_t asq, acq;

	struct fake_entry entries[FAKE_ENTRIES_MAX];
	unsigned nr_entries;
	uint64_t next_version;
	uint64_t lease_id;
	uint64_t ns_bytes[FAKE_NS_MAX]; /* by NSID - 1; 0: none */

	/* knobs and counters: any thread */
	_Atomic bool is_stopping, is_paused, is_idle, wants_disconnect, is_churning;
	_Atomic uint32_t fail_next; /* opcode << 16 | status, 0 = none */
	_Atomic uint32_t pause_at;  /* an admin command's opcode + 1, 0 = none */
	_Atomic unsigned nr_connects, nr_maps, nr_cmds[256], nr_admin[256];
	_Atomic bool has_lease_0;
	_Atomic unsigned
		after_nr; /* commands of after_opc until the next is the last; 0: no such */
	_Atomic bool after_disconnect;
	_Atomic uint8_t after_opc;
	/* locked, from here on */
	unsigned nr_rings;
	uint8_t mdts;
	uint32_t value_max;
	uint8_t hold_opc, hold_until_opc;
	unsigned hold_nr;  /* of hold_until_opc until what is held is answered; 0: no such */
	uint32_t held_qid; /* 0: none yet */
	struct nvme_cqe held;
	pthread_mutex_t lock; /* around one turn of the thread and what tests do to the content */
};

/* fake_peald.c: bytes of a command's data, by SGL or PRP. False: not mapped. */
bool fake_xfer(struct fake *f, const struct nvme_sqe *sqe, void *buf, uint32_t bytes,
	       bool is_to_host);
uint8_t *fake_ptr(struct fake *f, uint64_t iova, uint64_t bytes);

/* fake_knobs.c: the thread looks around; counts the bells that were rung since, locked. */
void fake_kick(struct fake *f);
void fake_count_rings(struct fake *f);

/* fake_kv.c */
void fake_kv_io(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe);
void fake_kv_admin(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe);
struct fake_entry *fake_kv_find(struct fake *f, const uint8_t *key, uint8_t len);
