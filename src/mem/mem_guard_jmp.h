/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside mem/ only: how a fault leaves the guarded code. The compiler's own setjmp saves three
 * words and costs a few cycles; the sanitizers keep their books of the stack by the C library's,
 * which they intercept, so their builds use that. The handler runs with SA_NODEFER, hence no signal
 * mask to restore, but for ThreadSanitizer, which blocks all signals around it.
 */
#ifndef MEM_MEM_GUARD_JMP_H
#define MEM_MEM_GUARD_JMP_H

#include <setjmp.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || \
	__has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
typedef sigjmp_buf mem_guard_jmp;
#define mem_guard_jmp_set(jmp) sigsetjmp(jmp, 1)
#define mem_guard_jmp_go(jmp) siglongjmp(jmp, 1)
#else
typedef void *mem_guard_jmp[5];
#define mem_guard_jmp_set(jmp) __builtin_setjmp(jmp)
#define mem_guard_jmp_go(jmp) __builtin_longjmp(jmp, 1)
#endif

#endif
