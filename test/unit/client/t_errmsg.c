/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts: keys as people write them, statuses to errno, one message per thread. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "client/errmsg.h"
#include "nvme/nvme_kv.h"

static void test_keys(void **state)
{
	struct peal_key text = peal_key_text("hello"), hex = peal_key_text("0x00ff"), none = {0};
	struct peal_key tricky = peal_key_bytes("0x", 2);
	char b[ERRMSG_KEY_BYTES];

	assert_string_equal(errmsg_key(&text, b), "'hello'");
	assert_string_equal(errmsg_key(&hex, b), "0x00ff");
	/* Text that would read as hex is shown as hex. */
	assert_string_equal(errmsg_key(&tricky, b), "0x3078");
	errmsg_key(&none, b);
}

static void test_statuses(void **state)
{
	struct peal_key k = peal_key_text("k");

	assert_int_equal(errmsg_status(NVME_ST_OK, "get", &k), 0);
	assert_int_equal(errmsg_status(NVME_ST_KEY_NOT_FOUND | NVME_ST_DNR, "get", &k), -ENOENT);
	assert_non_null(strstr(peal_errmsg(), "get 'k'"));
	assert_int_equal(errmsg_errno(NVME_ST_UNRECOVERED), -ENOENT);
	assert_int_equal(errmsg_errno(NVME_ST_INVALID_OPCODE), -EOPNOTSUPP);
	assert_int_equal(errmsg_errno(0x7ff), -EIO);
	assert_int_equal(errmsg_status(NVME_ST_INVALID_LOG, "log", NULL), -EINVAL);
	assert_non_null(strstr(peal_errmsg(), "109h"));
}

static void *other_thread(void *arg)
{
	errmsg_set(-EIO, "other");
	return NULL;
}

static void test_per_thread(void **state)
{
	char big[2000];
	pthread_t t;

	assert_int_equal(errmsg_set(-EIO, "mine %d", 1), -EIO);
	pthread_create(&t, NULL, other_thread, NULL);
	pthread_join(t, NULL);
	assert_string_equal(peal_errmsg(), "mine 1");
	memset(big, 'x', sizeof(big));
	errmsg_set(-EIO, "%.*s", (int)sizeof(big), big);
	assert_true(strlen(peal_errmsg()) < 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_per_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
