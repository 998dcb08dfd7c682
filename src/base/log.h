/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for a human with a problem: subject, what failed, errno name, what we did. Programs
 * log; libraries return errors. One line per failure, none per request. A line is
 * "2025-01-31T12:00:00.123Z warn text" in UTC and leaves the process in one write(), so lines of
 * several threads never mix; line breaks inside the text become spaces. Any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Gets a whole line without its line break. Called under the log's lock: it must not log itself. */
typedef void (*log_sink_fn)(void *arg, enum log_level level, const char *line, size_t len);

/* Lines above this level are dropped before they are formatted. The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);

/* NULL: back to stderr. When it returns, the previous sink isn't running and never will again. */
void log_set_sink(log_sink_fn fn, void *arg);

/* "err", "warn", "info", "debug" to a level; -EINVAL for any other name. */
int log_level_parse(const char *s, enum log_level *level);

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *fmt, ...);

#define log_err(...) log_at(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define log_at(level, ...) \
	do { \
		if (log_is_on(level)) \
			log_line(level, __VA_ARGS__); \
	} while (0)

/* Once per place in the program, for a condition that would otherwise repeat. */
#define log_once_warn(...) \
	do { \
		static atomic_flag log_once_ = ATOMIC_FLAG_INIT; \
		if (!atomic_flag_test_and_set_explicit(&log_once_, memory_order_relaxed)) \
			log_warn(__VA_ARGS__); \
	} while (0)

/*
 * For what somebody outside can bring about as often as he likes: from each place in the program
 * LOG_SOME_BURST lines at once and one per LOG_SOME_EVERY_NS on the long run; a line that gets
 * through after a gap ends with how many did not.
 */
#define LOG_SOME_BURST 20u
#define LOG_SOME_EVERY_NS 10000000000ull

struct log_some {
	_Atomic uint64_t full_ns; /* when the place may say a whole burst again */
	_Atomic uint64_t nr_held;
};

/* May a line go out at now_ns? Then *held is how many did not since the last one. */
bool log_some_take(struct log_some *ls, uint64_t now_ns, uint64_t *held);

__attribute__((format(printf, 3, 4))) void log_some_line(struct log_some *ls, enum log_level level,
							 const char *fmt, ...);

#define log_some_warn(...) log_some_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_some_info(...) log_some_at(LOG_LEVEL_INFO, __VA_ARGS__)

#define log_some_at(level, ...) \
	do { \
		static struct log_some log_some_; \
		if (log_is_on(level)) \
			log_some_line(&log_some_, level, __VA_ARGS__); \
	} while (0)
