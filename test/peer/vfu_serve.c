/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vfio-user server for the tests in Python: rig.h's, with threads. Prints the socket's path,
 * serves until its standard input ends, then checks that nothing is left.
 */
#include "rig.h"

int main(void)
{
	struct rig r = {.is_threaded = true, .spin_ns = 100000};
	char c;

	rig_init(&r, 2, &(struct vfu_opts){.poll_ns = 1000000});
	printf("%s/cntrl\n", r.dir);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	rig_fini(&r);
	return 0;
}
