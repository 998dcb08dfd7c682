/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See nth_calls.h. Values are made of their keys' numbers, so that any get can be judged.
 */
#include "nth_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL 20000u
#define BIG (3u << 20)
#define NR_KEYS 40u
#define MEM_BYTES (1u << 20)
#define UNTOUCHED ((void *)0x5a5a5a50)

struct nth_at nth_at;
static struct peal_mem *mem;
static struct peal_queue *queue;
static uint8_t *buf, *want;

/* ---- what has to hold ---- */

void nth_wrong(const char *what, long v)
{
	atomic_store(&nth_at.page->mode, 0);
	printf("%s, event %llu: %s (%ld); %s\n", nth_at.name, (unsigned long long)nth_at.n, what, v,
	       peal_errmsg());
	fflush(stdout);
	_exit(1);
}

void nth_check(bool is_right, const char *what, long v)
{
	if (!is_right)
		nth_wrong(what, v);
}

static struct peal_key key(uint32_t no)
{
	return peal_key_bytes(&no, sizeof(no));
}

static void make(uint8_t *v, uint32_t no, size_t len)
{
	uint32_t w = no * 2654435761u + 1;

	for (size_t i = 0; i + 4 <= len; i += 4) {
		w = w * 1664525u + 1013904223u;
		memcpy(v + i, &w, 4);
	}
}

static void same(const void *got, uint32_t no, size_t off, size_t len, size_t whole)
{
	make(want, no, whole);
	nth_check(memcmp(got, want + off, len) == 0, "WRONG BYTES of key", no);
}

static struct peal_opts opts(void)
{
	return (struct peal_opts){.timeout_ms = 3000, .is_operator = true};
}

/* ---- the calls: 0, or the error that they gave ---- */

static int go_open(void)
{
	struct peal_opts o = opts();
	struct peal *h = UNTOUCHED;
	int rc = peal_open(nth_at.uri, &o, &h);

	if (rc)
		nth_check(h == UNTOUCHED, "a handle in spite of", rc);
	else
		peal_close(h);
	return rc;
}

static int go_info(void)
{
	struct peal_info i = {0};
	int rc = peal_info(nth_at.p, &i);

	nth_check(rc || (i.nsid == 1 && i.key_max == 16 && i.is_immutable), "info", i.nsid);
	return rc;
}

static int put(uint32_t no, size_t len, struct peal_call *c)
{
	struct peal_key k = key(no);

	make(buf, no, len);
	return peal_put(nth_at.p, &k, buf, len, c);
}

static int get(uint32_t no, size_t len, struct peal_call *c)
{
	struct peal_key k = key(no);
	size_t off = c ? c->offset : 0;
	ssize_t n;

	memset(buf, 0, len);
	n = peal_get(nth_at.p, &k, buf, len, c);
	if (n < 0)
		return (int)n;
	nth_check((size_t)n == len - off, "length", n);
	same(buf, no, off, len - off, len);
	return 0;
}

static int go_put(void)
{
	return put(1, SMALL, NULL);
}

static int go_put_big(void)
{
	return put(2, BIG, NULL);
}

static int go_put_meta(void)
{
	struct peal_meta m = {.parent = key(1), .group = key(1), .tag = {7}, .cost_us = 5};
	struct peal_call c = {.meta = &m};

	return put(3, SMALL, &c);
}

static int go_get(void)
{
	return get(1, SMALL, NULL);
}

static int go_get_big(void)
{
	return get(2, BIG, NULL);
}

static int go_get_part(void)
{
	struct peal_call c = {.offset = 8192, .flags = PEAL_PART};

	return get(1, SMALL, &c);
}

static int go_get_meta(void)
{
	static const uint8_t tag[PEAL_TAG_BYTES] = {7};
	struct peal_meta m = {0};
	struct peal_call c = {.meta = &m, .want_tag = tag};
	int rc = get(3, SMALL, &c);

	nth_check(rc || (m.cost_us == 5 && m.tag[0] == 7 && m.parent.len == 4), "meta", m.cost_us);
	return rc;
}

static int go_get_absent(void)
{
	struct peal_key k = key(99);
	ssize_t n = peal_get(nth_at.p, &k, buf, SMALL, NULL);

	nth_check(n < 0, "a value that never was", n);
	return n == -ENOENT ? 0 : (int)n;
}

static int go_del(void)
{
	struct peal_key k = key(4);
	int rc = peal_del(nth_at.p, &k, NULL);

	return rc == -ENOENT ? 0 : rc; /* a second time */
}

static int go_exist(void)
{
	struct peal_call c = {0};
	struct peal_key k = key(1);
	int rc = peal_exist(nth_at.p, &k, &c);

	nth_check(rc || c.value_bytes == SMALL, "size", (long)c.value_bytes);
	nth_check(rc != -ENOENT, "absent", rc);
	return rc;
}

static void keys_fill(struct peal_key *k, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		k[i] = key(10 + i);
}

static int go_match(void)
{
	struct peal_key k[NR_KEYS + 1];
	size_t in_memory = 0;
	ssize_t n;

	keys_fill(k, NR_KEYS);
	k[NR_KEYS] = key(99);
	n = peal_match(nth_at.p, k, NR_KEYS + 1, &in_memory, NULL);
	if (n < 0)
		return (int)n;
	nth_check(n == NR_KEYS, "matched", n);
	return 0;
}

static int go_hint(void)
{
	struct peal_hint h[2] = {{.key = key(1), .say = PEAL_SAY_SCORE, .weight = 9},
				 {.key = key(2), .say = PEAL_SAY_PREFETCH}};
	ssize_t n = peal_hint(nth_at.p, h, 2, NULL);

	nth_check(n < 0 || n <= 2, "hints", n);
	return n < 0 ? (int)n : 0;
}

static int go_list(void)
{
	struct peal_key k[64];
	ssize_t n = peal_list(nth_at.p, NULL, k, 64, NULL);

	if (n < 0)
		return (int)n;
	nth_check(n >= (ssize_t)NR_KEYS, "keys", n);
	return 0;
}

static int go_flush(void)
{
	return peal_flush(nth_at.p, NULL);
}

static int go_lease(void)
{
	struct peal_key k = key(2);
	struct peal_lease *l = UNTOUCHED;
	int rc = peal_lease(nth_at.p, &k, 5000, &l), end;
	ssize_t n;

	if (rc) {
		nth_check(l == UNTOUCHED, "a lease in spite of", rc);
		return rc;
	}
	nth_check(l->value_bytes == BIG, "lease", (long)l->value_bytes);
	n = peal_lease_read(nth_at.p, l, 65536, buf, 200000);
	if (n > 0)
		same(buf, 2, 65536, (size_t)n, BIG);
	end = peal_release(nth_at.p, l);
	return n < 0 ? (int)n : end;
}

static int go_mem(void)
{
	struct peal_mem *m = UNTOUCHED;
	int rc = peal_mem_alloc(nth_at.p, MEM_BYTES, &m);

	if (rc) {
		nth_check(m == UNTOUCHED, "memory in spite of", rc);
		return rc;
	}
	memset(peal_mem_ptr(m), 1, peal_mem_bytes(m));
	return peal_mem_free(nth_at.p, m);
}

static int go_register(void)
{
	static int fd;
	static void *at;
	struct peal_mem *m = UNTOUCHED;
	int rc;

	if (!fd) {
		atomic_store(&nth_at.page->mode, 0);
		fd = memfd_create("mine", MFD_CLOEXEC);
		nth_check(fd >= 0 && ftruncate(fd, MEM_BYTES) == 0, "memfd", errno);
		at = mmap(NULL, MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		nth_check(at != MAP_FAILED, "mmap", errno);
	}
	rc = peal_mem_register(nth_at.p, fd, 0, at, MEM_BYTES, &m);
	if (rc) {
		nth_check(m == UNTOUCHED, "memory in spite of", rc);
		return rc;
	}
	return peal_mem_free(nth_at.p, m);
}

static int go_queue(void)
{
	struct peal_queue *q = UNTOUCHED;
	int rc = peal_queue_open(nth_at.p, 32, &q);

	if (rc) {
		nth_check(q == UNTOUCHED, "a queue in spite of", rc);
		return rc;
	}
	nth_check(peal_queue_fd(q) >= 0, "descriptor", peal_queue_fd(q));
	peal_queue_close(q);
	return 0;
}

/* One put and gets of it and of others; false: not submitted, or not all came back. */
static int requests(uint32_t flags, uint8_t *room)
{
	struct peal_req r[8] = {0}, *at[8], *done[8];
	int nr, nr_done = 0, n = 0, rc = 0;

	for (uint32_t i = 0; i < 8; i++) {
		r[i] = (struct peal_req){.op = i % 4 == 3   ? PEAL_REQ_EXIST
					       : i % 4 == 0 ? PEAL_REQ_PUT
							    : PEAL_REQ_GET,
					 .flags = i % 4 == 3 ? 0 : flags,
					 .key = key(10 + i),
					 .buf = room + i * SMALL,
					 .bytes = SMALL};
		memset(r[i].buf, 0, SMALL);
		if (r[i].op == PEAL_REQ_PUT)
			make(r[i].buf, 10 + i, SMALL);
		at[i] = &r[i];
	}
	nr = peal_submit(queue, at, 8);
	if (nr < 0)
		return nr;
	/* What went is awaited: the buffers are this function's. */
	for (int turns = 0; nr_done < nr && turns < 20; turns++) {
		n = peal_reap(queue, done, 8, 1000);
		for (int i = 0; i < n; i++) {
			nr_done++;
			if (done[i]->res)
				rc = done[i]->res;
			else if (done[i]->op == PEAL_REQ_GET)
				same(done[i]->buf, 10 + (uint32_t)(done[i] - r), 0, SMALL, SMALL);
		}
	}
	nth_check(nr_done == nr, "requests that didn't come back", nr - nr_done);
	return nr < 8 && !rc ? -EAGAIN : rc;
}

static int go_requests(void)
{
	return requests(0, buf);
}

static int go_direct(void)
{
	return requests(PEAL_DIRECT, peal_mem_ptr(mem));
}

static int go_run(void)
{
	struct peal_req r[6] = {0};
	int n, rc = 0;

	for (uint32_t i = 0; i < 6; i++) {
		r[i] = (struct peal_req){.op = PEAL_REQ_GET,
					 .key = key(i ? 10 + i : 2),
					 .buf = i ? buf + BIG + i * SMALL : buf,
					 .bytes = i ? SMALL : BIG};
		memset(r[i].buf, 0, r[i].bytes);
	}
	n = peal_run(queue, r, 6, 3000);
	if (n < 0)
		return n;
	for (uint32_t i = 0; i < 6; i++) {
		if (r[i].res)
			rc = r[i].res;
		else
			same(r[i].buf, i ? 10 + i : 2, 0, r[i].bytes, r[i].bytes);
		n -= r[i].res == 0;
	}
	nth_check(n == 0, "count of peal_run()", n);
	return rc;
}

static int go_estimate(void)
{
	struct peal_key k[4];
	struct peal_estimate e = {0};
	int rc;

	keys_fill(k, 4);
	rc = peal_estimate(nth_at.p, k, 4, SMALL, &e);
	nth_check(rc || e.present == 4, "present", e.present);
	return rc;
}

static int go_ns_list(void)
{
	uint32_t nsids[8] = {0};
	int n = peal_ns_list(nth_at.p, nsids, 8);

	nth_check(n < 0 || (n >= 2 && nsids[0] == 1), "namespaces", n);
	return n < 0 ? n : 0;
}

/* All there is behind the first two goes. */
static int go_ns(void)
{
	uint32_t nsid = 0;
	int rc = peal_ns_create(nth_at.p, 1 << 20, &nsid), end;

	if (rc)
		return rc;
	rc = peal_ns_resize(nth_at.p, nsid, 2 << 20);
	end = peal_ns_delete(nth_at.p, nsid);
	return rc ? rc : end;
}

static void no_ns(void)
{
	for (uint32_t nsid = 3; nsid < 8; nsid++)
		peal_ns_delete(nth_at.p, nsid);
}

static int go_log(void)
{
	ssize_t n = peal_log(nth_at.p, 2, 0, buf, 512);

	nth_check(n < 0 || n == 512, "log", n);
	return n < 0 ? (int)n : 0;
}

static int go_stats(void)
{
	struct peal_stats st = {0};

	peal_stats(nth_at.p, &st);
	nth_check(st.bad_seals == 0, "seals", (long)st.bad_seals);
	return 0;
}

#define CASE(name) \
	{ \
#name, go_##name, NULL \
	}
const struct nth_case nth_cases[] = {
	/* clang-format off */
	CASE(open), CASE(info), CASE(put), CASE(put_big), CASE(put_meta),
	CASE(get), CASE(get_big), CASE(get_part), CASE(get_meta), CASE(get_absent),
	CASE(del), CASE(exist), CASE(match), CASE(hint), CASE(list),
	CASE(flush), CASE(lease), CASE(mem), CASE(register), CASE(queue),
	CASE(requests), CASE(direct), CASE(run), CASE(estimate), CASE(ns_list),
	{"ns", go_ns, no_ns}, CASE(log), CASE(stats),
	{0},
	/* clang-format on */
};

void nth_calls_init(void)
{
	buf = malloc(BIG + 8 * SMALL);
	want = malloc(BIG);
	nth_check(buf && want, "malloc", errno);
}

void nth_calls_open(void)
{
	struct peal_opts o = opts();

	nth_check(peal_open(nth_at.uri, &o, &nth_at.p) == 0, "peal_open", 0);
	nth_check(peal_queue_open(nth_at.p, 32, &queue) == 0, "peal_queue_open", 0);
	nth_check(peal_mem_alloc(nth_at.p, MEM_BYTES, &mem) == 0, "peal_mem_alloc", 0);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		nth_check(put(10 + i, SMALL, NULL) == 0, "put", i);
	nth_check(go_put() == 0 && go_put_big() == 0 && go_put_meta() == 0, "put", 0);
}

int nth_calls_look(void)
{
	return nth_at.p ? get(11, SMALL, NULL) : 0;
}

void nth_calls_fini(void)
{
	peal_close(nth_at.p);
	free(buf);
	free(want);
}
