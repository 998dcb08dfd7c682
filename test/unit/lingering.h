/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor whose close() waits for ten minutes, which a peer can send us.
 */
#pragma once

#include "unit.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection that will never take what was written, and a close that would wait for that. */
static inline int lingering(int *other)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger l = {1, 600};
	socklen_t len = sizeof(sa);
	int ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char buf[65536];

	assert_int_equal(bind(ls, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(ls, 1), 0);
	assert_int_equal(getsockname(ls, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(connect(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	*other = accept(ls, NULL, NULL);
	assert_true(*other >= 0);
	close(ls);
	assert_int_equal(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	while (send(s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	return s;
}
