/* SPDX-License-Identifier: ISC */
/*
 * Counts calls of malloc() and related functions. It is preloaded into an unmodified daemon, and
 * the count is in a file that a test can read at any time:
 *
 *   LD_PRELOAD=.../allocations.so PGWEIR_ALLOCATIONS=FILE pgweir pgweir.ini
 *
 * FILE must exist and contain 8 zero bytes: a number in host byte order. Helper threads count too.
 * To find an allocation, set a breakpoint at allocation_happened().
 *
 * Hard here: with AddressSanitizer, malloc() must remain the sanitizer's, so this file uses its
 * hooks, and its library must be preloaded before this one. Without it, this file defines malloc()
 * and calls glibc's; dlsym() could not find that one without allocating.
 *
 * malloc() has no argument for our state, so this is the only file with state at file scope.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);

typedef void malloc_hook(const volatile void *at, size_t size);
typedef void free_hook(const volatile void *at);

/* Hooks of the sanitizer, if there is one. */
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(malloc_hook *on_malloc,
                                                                    free_hook *on_free);

void allocation_happened(void);

static _Atomic uint64_t uncounted; /* allocations before the file is mapped */
static _Atomic uint64_t *count = &uncounted;

__attribute__((noinline)) void allocation_happened(void)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static void on_malloc(const volatile void *at, size_t size)
{
	(void)at, (void)size;
	allocation_happened();
}

static void on_free(const volatile void *at) { (void)at; }

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("PGWEIR_ALLOCATIONS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *file;

	if (fd < 0)
		return;
	file = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	count = file;
	if (__sanitizer_install_malloc_and_free_hooks)
		__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

void *malloc(size_t size)
{
	allocation_happened();
	return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
	allocation_happened();
	return __libc_calloc(number, size);
}

void *realloc(void *at, size_t size)
{
	allocation_happened();
	return __libc_realloc(at, size);
}

void *memalign(size_t align, size_t size)
{
	allocation_happened();
	return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **at, size_t align, size_t size)
{
	void *made;

	if (align % sizeof(void *) || align & (align - 1) || !align)
		return EINVAL;
	made = memalign(align, size);
	if (!made)
		return ENOMEM;
	*at = made;
	return 0;
}
