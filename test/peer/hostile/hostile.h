/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile clients of a real peald, and one that must not notice. hostile.c starts the daemon, is
 * the victim itself (hostile_victim.c) and starts attackers as processes of this same program:
 *
 *	hostile_host.c    a vfio-user NVMe host that shares nothing with libpeal
 *	hostile_memory.c  attacks by what is shared: rings, lists, data, doorbells
 *	hostile_wire.c    attacks by the socket: messages, descriptors, connections
 *
 *	hostile_run.c     attackers as processes, and the daemon: what they are and leave behind
 *
 * An attacker runs until it is killed. What the parent wants to know of it is in a page that both
 * map; its guest memory is a memfd of the parent's, which looks through it afterwards.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/rng.h"
#include "nvme/nvme_kv.h"
#include "nvme/vfio_user.h"

#define HOSTILE_MIB (1u << 20)
#define HOSTILE_IOVA 0x200000000ull
#define HOSTILE_AREA_IOVA 0x900000000ull

/* ---- the host ---- */

#define HOST_QUEUES 9u /* with the admin queue */
#define HOST_SLOTS 256u
#define HOST_RING_BYTES 0x8000u /* of a pair: SQ, at 0x4000 the CQ */
#define HOST_LISTS 0x80000u	/* 512 KiB of PRP lists and SGLs */
#define HOST_DATA 0x100000u
#define HOST_BYTES (8u * HOSTILE_MIB)

struct host {
	const char *path;
	int sock;	   /* -1: not connected */
	unsigned admin_ms; /* how long an admin command may take before the host gives up */
	uint16_t msg_id;
	int mem_fd; /* not owned */
	uint8_t *mem;
	uint8_t *bells; /* one page, stride 4; NULL: none */
	struct {
		uint32_t tail, head, phase;
	} q[HOST_QUEUES];
};

/* mem_fd has HOST_BYTES. */
void host_init(struct host *h, const char *path, int mem_fd);
/* All of these: 0 or a count, or -errno; -EPIPE when the server hung up. */
int host_connect(struct host *h);
void host_hang_up(struct host *h);
int host_send(struct host *h, const void *buf, size_t len, const int *fds, unsigned nr_fds);
/* A message and its answer; *reply (may be NULL) gets at most `max` bytes of payload. */
struct host_msg {
	uint16_t cmd;
	const void *data;
	size_t len;
	int fd; /* -1: none */
	void *reply;
	size_t max;
	int reply_fd; /* out: the first that came, or -1 */
};
int host_call(struct host *h, struct host_msg *m);
int host_map(struct host *h, uint64_t iova, uint64_t bytes, int fd);
int host_unmap(struct host *h, uint64_t iova, uint64_t bytes);
int host_reg_read(struct host *h, uint32_t off, uint32_t *val);
int host_reg_write(struct host *h, uint32_t off, uint64_t val, uint32_t len);
/* VERSION, memory, doorbells, CC.EN, `nr` I/O queue pairs 1..nr. */
int host_attach(struct host *h, unsigned nr);

void host_bell(struct host *h, unsigned index, uint32_t val);
struct nvme_sqe *host_slot(struct host *h, unsigned q);
void host_put(struct host *h, unsigned q, const struct nvme_sqe *sqe); /* without the doorbell */
void host_ring(struct host *h, unsigned q);
/* What has come; up to max CQEs copied (may be NULL). Moves the head. */
unsigned host_reap(struct host *h, unsigned q, struct nvme_cqe *cqe, unsigned max);

/* ---- attackers ---- */

#define ATTACKS_MAX 16u

/* One cache line each; the attacker writes, the parent reads. */
struct attack_seen {
	_Atomic uint64_t acts;
	_Atomic uint64_t faults; /* what may never be: written after DMA_UNMAP's answer, ... */
	_Atomic uint64_t sessions;
	uint8_t pad[40];
};

struct attack {
	struct host host;
	struct rng rng;
	struct attack_seen *seen;
	const char *path;
	int mem_fd;
	uint32_t nsid;	      /* its own */
	_Atomic bool is_calm; /* scribble: its second thread waits */
	bool may_guess;	      /* asks for the victim's keys, in its own namespace */
};

struct attack_kind {
	const char *name;
	void (*run)(struct attack *a); /* until it is killed */
	uint64_t min_acts;	       /* in the short form, before it is killed */
	unsigned nr_lives;	       /* killed and started anew so many times */
};
extern const struct attack_kind attack_memory_kinds[], attack_wire_kinds[]; /* name NULL: end */
const struct attack_kind *attack_find(const char *name);		    /* NULL: none */
/* hostile.c does what it is for; the attackers' processes come here. */
__attribute__((noreturn)) void attack_main(char **argv);
extern char attack_word[]; /* argv[1] that says so */

static inline void attack_did(struct attack *a)
{
	atomic_fetch_add_explicit(&a->seen->acts, 1, memory_order_relaxed);
}
/* Attached with nr queues, whatever it takes: the daemon may be busy closing the one before. */
void attack_attach(struct attack *a, unsigned nr);

/* ---- processes ---- */

struct attacker {
	const struct attack_kind *kind;
	struct attack_seen *seen;
	unsigned index, lives; /* begun */
	uint64_t acts_before;  /* of the lives before this one */
	int mem_fd;
	const uint8_t *mem;
	pid_t pid;
};

struct daemon {
	pid_t pid;
	char dir[64], path[80], log[80];
};

struct daemon_memory {
	uint64_t anon_bytes; /* resident, besides values and pools */
	uint64_t pool_bytes; /* pools and tables of huge pages, touched or not */
};

void daemon_start(struct daemon *d, const char *peald, const char *reactors);
void daemon_stop(struct daemon *d); /* it has to end well, and to leave nothing */
unsigned daemon_fds(const struct daemon *d);
struct daemon_memory daemon_memory(const struct daemon *d);

/*
 * From now on each has cores to itself: this process one, the daemon's two reactors one each, its
 * other threads one, attackers all that have no thread of those cores. With fewer than five cores
 * (four CPUs, if nothing is known of cores) nobody is moved.
 */
void attackers_apart(void);
bool attackers_are_apart(void);
void daemon_apart(const struct daemon *d); /* started */

void attacker_init(struct attacker *at, unsigned index, const struct attack_kind *kind);
void attacker_start(struct attacker *at, const struct daemon *d);
/* Killed and started anew while lives are left. True: it has done what was wanted of it. */
bool attacker_look(struct attacker *at, const struct daemon *d, double times);
void attacker_kill(struct attacker *at);
void attacker_check(struct attacker *at); /* after its end: nothing was leaked to it */

/* ---- the victim ---- */

struct victim;
struct victim *victim_open(const char *folder);
void victim_close(struct victim *v);
/* One call: a get that is checked byte for byte, or a put, or a wave of direct ones. Exits when
 * anything is wrong. */
void victim_step(struct victim *v);
uint64_t victim_steps(const struct victim *v);
/* Percentile of the 4 KiB gets since the last reset, ns; and how many there were. */
uint64_t victim_quantile(const struct victim *v, double q, uint64_t *nr);
void victim_reset(struct victim *v);
/* What is in every line of 64 bytes of the victim's values and nowhere else. */
#define VICTIM_MARK 0x5ec2e7b10c4da7a1ull

/* The victim's keys can be guessed by everybody: they are content hashes. */
#define VICTIM_KEYS 512u
void victim_key(uint32_t i, uint8_t key[16]);

#endif
