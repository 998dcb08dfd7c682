/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opcode x option x outcome: every opcode from 00h to FFh and every option byte against the status
 * that the specification or vendor-commands.md gives, for each state of the key and of the
 * namespace. The table is generated: expect() says what is right from rules written once, and each
 * cell is run.
 */
#include "unit.h"

#include "kv_host.h"

enum key_state {
	KEY_ABSENT,
	KEY_PRESENT,
	KEY_NONE,     /* KL 0 */
	KEY_TOO_LONG, /* KL 17 and 255 */
	NR_KEY_STATES,
};

enum value_state {
	VALUE_OK,
	VALUE_NONE,  /* CDW10 0 */
	VALUE_LARGE, /* above the namespace's largest */
	NR_VALUE_STATES,
};

struct cell {
	uint8_t opc;
	uint8_t opts;
	enum key_state key;
	enum value_state value;
	bool is_read_only;
	bool ednek;
};

#define VALUE_MAX (1u << 20)

static bool is_known(uint8_t opc)
{
	static const uint8_t known[] = {0x00, 0x01, 0x02, 0x06, 0x10, 0x14,
					0x81, 0x82, 0x85, 0x89, 0x8a, 0x8c};

	return memchr(known, opc, sizeof(known)) != NULL;
}

static bool is_keyed(uint8_t opc)
{
	return is_known(opc) && opc != 0x00 && opc != 0x06 && opc != 0x85 && opc != 0x89 &&
	       opc != 0x8c;
}

static uint16_t expect_store(const struct cell *c, bool is_ex)
{
	if (is_ex && c->value == VALUE_NONE)
		return NVME_ST_INVALID_VALUE_SIZE;
	if (c->is_read_only)
		return NVME_ST_NS_WRITE_PROTECTED;
	if (c->opts & ~7 || (c->opts & 3) == 3)
		return NVME_ST_INVALID_FIELD;
	if (c->value != VALUE_OK)
		return NVME_ST_INVALID_VALUE_SIZE;
	if (c->opts & 1 && c->key == KEY_ABSENT)
		return NVME_ST_KEY_NOT_FOUND;
	if (c->opts & 2 && c->key == KEY_PRESENT)
		return NVME_ST_KEY_EXISTS;
	return NVME_ST_OK;
}

static uint16_t expect_retrieve_ex(const struct cell *c)
{
	if (c->opts & ~7 || (c->opts & 4 && !(c->opts & 2)) || c->value == VALUE_NONE)
		return NVME_ST_INVALID_FIELD;
	return c->key == KEY_PRESENT ? NVME_ST_OK : NVME_ST_KEY_NOT_FOUND;
}

static uint16_t expect_list(const struct cell *c)
{
	if (c->value == VALUE_NONE)
		return NVME_ST_INVALID_FIELD;
	return c->key == KEY_TOO_LONG ? NVME_ST_INVALID_KEY_SIZE : NVME_ST_OK;
}

static uint16_t expect(const struct cell *c)
{
	uint16_t miss = c->key == KEY_PRESENT ? NVME_ST_OK : NVME_ST_KEY_NOT_FOUND;

	if (!is_known(c->opc))
		return NVME_ST_INVALID_OPCODE;
	if (is_keyed(c->opc) && (c->key == KEY_NONE || c->key == KEY_TOO_LONG))
		return NVME_ST_INVALID_KEY_SIZE;
	switch (c->opc) {
	case NVME_KV_STORE:
		return expect_store(c, false);
	case PEAL_OPC_STORE_EX:
		return expect_store(c, true);
	case NVME_KV_RETRIEVE:
		return c->opts & ~1 ? NVME_ST_INVALID_FIELD : miss;
	case PEAL_OPC_RETRIEVE_EX:
		return expect_retrieve_ex(c);
	case NVME_KV_LIST:
		return expect_list(c);
	case NVME_KV_EXIST:
		return miss;
	case NVME_KV_DELETE:
		if (c->is_read_only)
			return NVME_ST_NS_WRITE_PROTECTED;
		return c->ednek ? miss : NVME_ST_OK;
	case PEAL_OPC_LEASE:
		return c->opts || c->value == VALUE_NONE ? NVME_ST_INVALID_FIELD : miss;
	case PEAL_OPC_RELEASE:
		return NVME_ST_KEY_NOT_FOUND;
	case PEAL_OPC_HINT:
	case PEAL_OPC_MATCH: /* 4096 bytes are no multiple of 24, nor is nothing */
		return NVME_ST_INVALID_FIELD;
	default:
		return NVME_ST_OK; /* Flush */
	}
}

static uint32_t data_bytes(const struct cell *c)
{
	bool is_ex = c->opc == PEAL_OPC_STORE_EX;

	switch (c->value) {
	case VALUE_NONE:
		return 0;
	case VALUE_LARGE:
		return VALUE_MAX + 1 + (is_ex ? 128 : 0);
	default:
		return 4096;
	}
}

static void run_cell(struct kv_host *h, const struct cell *c)
{
	struct nvme_sqe sqe = kv_host_sqe(c->opc, "key", c->opts);
	struct kv_host_cmd cmd;
	uint16_t want = expect(c), looked;
	uint64_t over;

	atomic_store(&h->ns->kv_config, c->ednek);
	if (c->key == KEY_NONE)
		sqe.cdw11 &= ~0xffu;
	if (c->key == KEY_TOO_LONG)
		sqe.cdw11 |= c->opts & 1 ? 0xff : 17;
	memset(h->mem + KV_HOST_IN, 0, 4096);
	kv_host_data(&sqe, KV_HOST_IN, data_bytes(c));
	if (!is_known(c->opc) || c->opc == NVME_KV_LIST || c->opc == PEAL_OPC_LEASE)
		sqe.cdw12 = 0;
	else if (c->opc != PEAL_OPC_RETRIEVE_EX && c->opc != PEAL_OPC_MATCH)
		sqe.cdw12 = 0x12345678; /* Mooncake's: to be ignored */
	over = tgt_req_look(&h->sq[c->opts % h->node.nr], &sqe, 1, &looked);
	cmd = kv_host_run(h, c->opts % h->node.nr, &sqe);
	if (over && (c->opc != NVME_KV_EXIST || looked != cmd.raw_status))
		fail_msg("opcode %02xh key %d: a look says %03xh, the command %03xh", c->opc,
			 c->key, looked, cmd.raw_status);
	/* What would fail again isn't to be tried again; what isn't there may come. */
	assert_int_equal(!!(cmd.raw_status & NVME_ST_DNR),
			 want == NVME_ST_INVALID_OPCODE || want == NVME_ST_INVALID_FIELD ||
				 want == NVME_ST_INVALID_KEY_SIZE ||
				 want == NVME_ST_INVALID_VALUE_SIZE ||
				 want == NVME_ST_NS_WRITE_PROTECTED);
	if (cmd.status != want)
		fail_msg("opcode %02xh options %02xh key %d value %d%s%s: %03xh, expected %03xh",
			 c->opc, c->opts, c->key, c->value, c->is_read_only ? " read-only" : "",
			 c->ednek ? " EDNEK" : "", cmd.status, want);
}

static void del_key(struct kv_host *h)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_DELETE, "key", 0);

	kv_host_run(h, 0, &sqe);
}

/* Puts the key into the state that the cell wants. A read-only namespace is always empty. */
static void set_key(struct kv_host *h, enum key_state key)
{
	if (key == KEY_PRESENT)
		assert_int_equal(kv_host_store(h, "key", "0123456789", 10, 0), NVME_ST_OK);
	else
		del_key(h);
}

static void table(const char *stack, unsigned nr_workers, bool is_read_only)
{
	struct kv_host_opts o = {.stack = stack, .nr_workers = nr_workers};
	struct kv_host h;
	unsigned nr = 0;

	o.ns.value_max = VALUE_MAX;
	o.ns.is_read_only = is_read_only;
	kv_host_init(&h, &o);
	for (unsigned opc = 0; opc < 256; opc++) {
		for (unsigned v = 0; v < NR_VALUE_STATES; v++) {
			for (unsigned k = 0; k < NR_KEY_STATES; k++) {
				if (is_read_only && k == KEY_PRESENT)
					continue;
				for (unsigned opts = 0; opts < (is_known((uint8_t)opc) ? 256u : 1u);
				     opts++) {
					struct cell c = {(uint8_t)opc, (uint8_t)opts, k, v,
							 is_read_only, opts % 2};

					if (!is_read_only)
						set_key(&h, k);
					run_cell(&h, &c);
					nr++;
				}
			}
		}
	}
	printf("%s, %u workers%s: %u cells\n", stack, nr_workers, is_read_only ? ", read-only" : "",
	       nr);
	kv_host_fini(&h);
}

static void t_table(void **state)
{
	table("mem", 1, false);
	table("dram", 1, false);
	table("dram", 3, false);
}

static void t_table_read_only(void **state)
{
	table("mem", 2, true);
}

/* Bytes behind the key's length don't count; lengths do. */
static void t_keys(void **state)
{
	struct kv_host h;
	struct nvme_sqe sqe;
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2});
	assert_int_equal(kv_host_store(&h, "abc", "1", 1, 0), NVME_ST_OK);
	assert_int_equal(kv_host_store(&h, "abcd", "22", 2, 0), NVME_ST_OK);
	assert_int_equal(kv_host_store(&h, "0123456789abcdef", "333", 3, 0), NVME_ST_OK);
	sqe = kv_host_sqe(NVME_KV_EXIST, "abc", 0);
	memset(sqe.key_lo + 3, 0xff, 5);
	memset(sqe.key_hi, 0xff, 8);
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_OK);
	assert_int_equal(kv_host_retrieve(&h, "abcd", 64, &len), NVME_ST_OK);
	assert_int_equal(len, 2);
	assert_int_equal(kv_host_retrieve(&h, "0123456789abcdef", 64, &len), NVME_ST_OK);
	assert_int_equal(len, 3);
	assert_int_equal(kv_host_retrieve(&h, "0123456789abcde", 64, &len), NVME_ST_KEY_NOT_FOUND);
	kv_host_fini(&h);
}

/* Bursts of Exist among others: what a look answers is what the command says, and it answers all
 * that it can. */
static void t_look(void **state)
{
	struct kv_host h;
	struct nvme_sqe sqe[TGT_BURST];
	uint16_t status[TGT_BURST];
	unsigned nr_over = 0, nr_exist;
	char key[16];
	uint64_t over;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 2});
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(kv_host_store(&h, key, "1", 1, 0), NVME_ST_OK);
	}
	for (unsigned round = 0; round < 200; round++) {
		unsigned nr = 1 + (unsigned)rng_below(&h.rng, TGT_BURST);

		nr_exist = 0;
		for (unsigned i = 0; i < nr; i++) {
			bool is_odd = rng_chance(&h.rng, 1, 16);

			snprintf(key, sizeof(key), "k%u", (unsigned)rng_below(&h.rng, 200));
			sqe[i] = kv_host_sqe(NVME_KV_EXIST, key, 0);
			if (is_odd && i % 4 == 0)
				sqe[i].cdw11 = 17;
			else if (is_odd && i % 4 == 1)
				sqe[i].nsid = 2;
			else if (is_odd && i % 4 == 2)
				sqe[i].flags = 1;
			else if (is_odd)
				sqe[i].opc = NVME_KV_FLUSH;
			nr_exist += !is_odd;
		}
		over = tgt_req_look(&h.sq[round % 2], sqe, nr, status);
		for (unsigned i = 0; i < nr; i++) {
			if (!(over >> i & 1))
				continue;
			nr_over++;
			assert_int_equal(sqe[i].opc, NVME_KV_EXIST);
			assert_int_equal(kv_host_run(&h, 0, &sqe[i]).raw_status, status[i]);
		}
		if (nr < 64)
			assert_int_equal(over >> nr, 0);
		assert_true((unsigned)__builtin_popcountll(over) <= nr_exist);
	}
	/* Two workers: about half of the keys are each one's own. */
	assert_true(nr_over > 2000);
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_table),
		cmocka_unit_test(t_table_read_only),
		cmocka_unit_test(t_keys),
		cmocka_unit_test(t_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
