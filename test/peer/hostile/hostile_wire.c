/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by the socket: every kind of malformed vfio-user message, descriptors of every kind with
 * every command, a thousand connections that are held. Each runs in a process of its own until it
 * is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/must.h"
#include "hostile.h"

#define WIRE_MAX (65536u + 256u)
#define NR_CONNECTIONS 1000u
#define NR_KINDS 16u

/* Answers, whatever they are: thrown away without waiting. */
static void wire_drain(struct host *h)
{
	static uint8_t sink[WIRE_MAX];

	while (h->sock >= 0 && recv(h->sock, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

static void wire_connect(struct attack *a, bool is_attached)
{
	host_hang_up(&a->host);
	if (is_attached) {
		attack_attach(a, 0);
		return;
	}
	while (host_connect(&a->host))
		poll(NULL, 0, 1);
}

/* ---- messages ---- */

static uint32_t any_size(struct rng *r, uint32_t len)
{
	static const uint32_t sizes[] = {0,	1,     15,    16,    17,       24,	  32,
					 65535, 65536, 65600, 65601, 1u << 31, UINT32_MAX};

	return rng_chance(r, 1, 2) ? 16 + len : sizes[rng_below(r, sizeof(sizes) / 4)];
}

/* Small numbers, sizes of things and borders more often than the rest. */
static uint32_t any_word(struct rng *r)
{
	static const uint32_t words[] = {0,	 1,	  2,	      7,	 16,	 24,
					 32,	 4095,	  4096,	      0x1000,	 0x2000, 0x7fff,
					 0x8000, 0x10000, 0xffffffff, 0x80000000};

	return rng_chance(r, 1, 8) ? (uint32_t)rng_u64(r)
				   : words[rng_below(r, sizeof(words) / sizeof(words[0]))];
}

static void wire_message(struct attack *a)
{
	static uint8_t buf[WIRE_MAX];
	struct vfio_user_hdr h = {.msg_id = 1};
	uint32_t len = (uint32_t)rng_below(&a->rng, 20) * 4, sent;

	if (rng_chance(&a->rng, 1, 64))
		len = (uint32_t)rng_below(&a->rng, sizeof(buf) - 16);
	h.cmd = (uint16_t)(rng_chance(&a->rng, 1, 16) ? rng_u64(&a->rng) : rng_below(&a->rng, 18));
	h.size = any_size(&a->rng, len);
	h.flags = rng_chance(&a->rng, 3, 4) ? 0 : any_word(&a->rng);
	h.error_no = rng_chance(&a->rng, 7, 8) ? 0 : any_word(&a->rng);
	memcpy(buf, &h, sizeof(h));
	for (uint32_t i = 0; i + 4 <= len; i += 4) {
		uint32_t word = any_word(&a->rng);

		memcpy(buf + 16 + i, &word, 4);
	}
	/* Whole, cut off, or in pieces. */
	sent = rng_chance(&a->rng, 1, 8) ? (uint32_t)rng_below(&a->rng, 16 + len) + 1 : 16 + len;
	while (sent > 0) {
		uint32_t n = rng_chance(&a->rng, 1, 4) ? 1 + (uint32_t)rng_below(&a->rng, sent)
						       : sent;

		if (send(a->host.sock, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			return;
		memmove(buf, buf + n, sent - n);
		sent -= n;
	}
}

static void attack_messages(struct attack *a)
{
	for (unsigned n = 0;; n++) {
		wire_connect(a, n % 3);
		for (unsigned i = 0; i < 40; i++) {
			wire_message(a);
			if (rng_chance(&a->rng, 1, 4))
				wire_drain(&a->host);
		}
		attack_did(a);
	}
}

/* ---- descriptors ---- */

static int open_kind(struct attack *a, unsigned kind, const char *path)
{
	sigset_t none;
	int fd = -1, ends[2];

	sigemptyset(&none);
	switch (kind) {
	case 0:
	case 1:
		fd = memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		must(fd >= 0 && ftruncate(fd, kind ? 100 : HOSTILE_MIB) == 0);
		return fd;
	case 2:
		fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		must(fd >= 0 && ftruncate(fd, HOSTILE_MIB) == 0);
		must(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
		return fd;
	case 3:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 4:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 5:
		return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 6:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 7:
		return epoll_create1(EPOLL_CLOEXEC);
	case 8:
		return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	case 9:
		/* A counter that is full: a write to it would wait for ever. */
		return eventfd(UINT32_MAX, EFD_CLOEXEC);
	case 10:
		return open(path, O_PATH | O_CLOEXEC);
	case 11:
		must(pipe2(ends, O_CLOEXEC) == 0);
		close(ends[0]);
		return ends[1];
	case 12:
		return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	case 13:
		return signalfd(-1, &none, SFD_CLOEXEC);
	case 14:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	default: /* its own connection: a cycle, when nobody reads it */
		return dup(a->host.sock);
	}
}

static void pass_fds(struct attack *a, const int kinds[NR_KINDS])
{
	static const uint8_t cmds[] = {VFIO_USER_DMA_MAP,	  VFIO_USER_DMA_MAP,
				       VFIO_USER_DEVICE_SET_IRQS, VFIO_USER_REGION_WRITE,
				       VFIO_USER_DEVICE_GET_INFO, 200};
	static const unsigned counts[] = {1, 1, 1, 2, 16, 17, 253};
	unsigned nr = counts[rng_below(&a->rng, 7)], one = (unsigned)rng_below(&a->rng, NR_KINDS);
	int fds[253];
	struct {
		struct vfio_user_hdr h;
		union {
			struct vfio_user_dma_map map;
			uint32_t irqs[8]; /* argsz, flags, index, start, count */
		};
	} m = {.h = {.msg_id = 9, .cmd = cmds[rng_below(&a->rng, sizeof(cmds))]}};

	for (unsigned i = 0; i < nr; i++)
		fds[i] = kinds[nr <= 2 ? one : rng_below(&a->rng, NR_KINDS)];
	m.map = (struct vfio_user_dma_map){32, 3, rng_below(&a->rng, 3) * 4096, HOSTILE_AREA_IOVA,
					   HOSTILE_MIB};
	m.map.addr += rng_below(&a->rng, 4096) * HOSTILE_MIB;
	if (m.h.cmd == VFIO_USER_DEVICE_SET_IRQS) {
		const uint32_t irqs[8] = {20, 1u << 2 | 1u << 5, 2, 0, nr};

		memcpy(m.irqs, irqs, sizeof(irqs));
	}
	m.h.size = sizeof(m);
	(void)host_send(&a->host, &m, sizeof(m), fds, nr);
}

static void attack_fds(struct attack *a)
{
	int kinds[NR_KINDS];

	for (;;) {
		attack_attach(a, 1);
		for (unsigned i = 0; i < NR_KINDS; i++) {
			kinds[i] = open_kind(a, i, a->path);
			must(kinds[i] >= 0);
		}
		for (unsigned n = 0; n < 20; n++) {
			struct pollfd answer = {.fd = a->host.sock, .events = POLLIN};

			pass_fds(a, kinds);
			/* Sometimes nobody reads the answers. */
			if (rng_chance(&a->rng, 7, 8))
				poll(&answer, 1, 1000);
			wire_drain(&a->host);
			attack_did(a);
		}
		for (unsigned i = 0; i < NR_KINDS; i++)
			close(kinds[i]);
	}
}

/* ---- connections ---- */

static void attack_connections(struct attack *a)
{
	struct rlimit rl = {NR_CONNECTIONS + 100, NR_CONNECTIONS + 100};
	struct host *h = &a->host;
	static const uint8_t half[12] = {1, 0, 1, 0, 20};

	(void)setrlimit(RLIMIT_NOFILE, &rl);
	for (unsigned n = 0; n < NR_CONNECTIONS; n++) {
		if (host_connect(h)) {
			poll(NULL, 0, 1);
			continue;
		}
		/* Some never say a word, some stop in the middle of one. */
		if (n % 2)
			(void)send(h->sock, half, sizeof(half), MSG_NOSIGNAL);
		attack_did(a); /* h->sock stays open and is forgotten */
	}
	atomic_fetch_add(&a->seen->sessions, 1);
	for (;;)
		pause();
}

const struct attack_kind attack_wire_kinds[] = {
	{"messages", attack_messages, 100, 1},
	{"fds", attack_fds, 300, 1},
	{"connections", attack_connections, 900, 1},
	{NULL, NULL, 0, 0},
};
