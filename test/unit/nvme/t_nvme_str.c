/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme_str.h: a name for what exists, "unknown" for every other number, never NULL. One thread.
 */
#include "unit.h"

#include "nvme/nvme_str.h"

static void t_opcodes(void **state)
{
	assert_string_equal(nvme_str_admin_opcode(0x06), "Identify");
	assert_string_equal(nvme_str_admin_opcode(0x03), "unknown");
	assert_string_equal(nvme_str_kv_opcode(0x00), "Flush");
	assert_string_equal(nvme_str_kv_opcode(0x02), "Retrieve");
	assert_string_equal(nvme_str_kv_opcode(0x14), "Exist");
	assert_string_equal(nvme_str_kv_opcode(0x8a), "LEASE");
	assert_string_equal(nvme_str_kv_opcode(0xff), "unknown");
	assert_string_equal(nvme_str_nvm_opcode(0x00), "Flush");
	assert_string_equal(nvme_str_nvm_opcode(0x01), "Write");
	assert_string_equal(nvme_str_nvm_opcode(0x09), "Dataset Management");
	assert_string_equal(nvme_str_nvm_opcode(0x81), "unknown");
	assert_string_equal(nvme_str_fabrics_type(0x01), "Connect");
}

static void t_statuses(void **state)
{
	assert_string_equal(nvme_str_status(0), "Successful Completion");
	assert_string_equal(nvme_str_status(0x87), "Key Does Not Exist");
	assert_string_equal(nvme_str_status(0x89), "Key Exists");
	assert_string_equal(nvme_str_status(0x4087), "Key Does Not Exist");
	assert_string_equal(nvme_str_status(0x101), "Invalid Queue Identifier");
	assert_string_equal(nvme_str_status(0x281), "Unrecovered Read Error");
	assert_string_equal(nvme_str_status(0x7ff), "unknown");
}

static void t_never_null(void **state)
{
	for (unsigned i = 0; i <= UINT16_MAX; i++)
		assert_non_null(nvme_str_status((uint16_t)i));
	for (unsigned i = 0; i <= UINT8_MAX; i++) {
		assert_non_null(nvme_str_admin_opcode((uint8_t)i));
		assert_non_null(nvme_str_kv_opcode((uint8_t)i));
		assert_non_null(nvme_str_fabrics_type((uint8_t)i));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_opcodes),
		cmocka_unit_test(t_statuses),
		cmocka_unit_test(t_never_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
