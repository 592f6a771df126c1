/* SPDX-License-Identifier: ISC */
/*
 * Sends through io_uring.
 *
 *   sends --> entries, tail --> io_uring_enter() --> answers --> done
 *
 * Hard here: the kernel reads and writes the memory of entries and answers too. So an index
 * that we write is stored after the data it publishes (release), and an index that the kernel
 * writes is loaded before that data (acquire).
 */
#include "ring_priv.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if HAVE_IO_URING
#include <linux/io_uring.h>
#endif

#include "pgweir/base/banned.h"

#if HAVE_IO_URING

struct area {
	char *at; /* NULL: not mapped */
	size_t size;
};

struct ring {
	int fd;
	struct area entries, rings;
	struct io_uring_sqe *entry;
	struct io_uring_cqe *answer;
	unsigned int *entry_head, *entry_tail, entry_mask;
	unsigned int *answer_head, *answer_tail, answer_mask;
};

/* These flags save work in the kernel if only one thread sends. Older kernels know neither. */
static const unsigned int flags_to_try[] = {
#ifdef IORING_SETUP_DEFER_TASKRUN
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
#endif
	0,
};

static int set_up(unsigned int most, struct io_uring_params *params)
{
	const size_t count = sizeof(flags_to_try) / sizeof(flags_to_try[0]);
	int fd = -1;

	for (size_t i = 0; i < count; i++) {
		*params = (struct io_uring_params){ .flags = flags_to_try[i] };
		fd = (int)syscall(SYS_io_uring_setup, most, params);
		if (fd >= 0 || errno != EINVAL)
			break;
	}
	return fd;
}

static bool map(struct area *area, int fd, size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);

	if (at == MAP_FAILED)
		return false;
	*area = (struct area){ at, size };
	return true;
}

static unsigned int *field(const struct ring *ring, unsigned int offset)
{
	return (unsigned int *)(void *)(ring->rings.at + offset);
}

/* Finds the parts of the mapped memory. The index array is filled once: entry i is at index i. */
static void find_parts(struct ring *ring, const struct io_uring_params *params)
{
	unsigned int *places = field(ring, params->sq_off.array);

	ring->entry = (struct io_uring_sqe *)(void *)ring->entries.at;
	ring->entry_head = field(ring, params->sq_off.head);
	ring->entry_tail = field(ring, params->sq_off.tail);
	ring->entry_mask = *field(ring, params->sq_off.ring_mask);
	ring->answer = (struct io_uring_cqe *)(void *)field(ring, params->cq_off.cqes);
	ring->answer_head = field(ring, params->cq_off.head);
	ring->answer_tail = field(ring, params->cq_off.tail);
	ring->answer_mask = *field(ring, params->cq_off.ring_mask);
	for (unsigned int i = 0; i < params->sq_entries; i++)
		places[i] = i;
}

static bool map_parts(struct ring *ring, const struct io_uring_params *params)
{
	size_t entries = params->sq_off.array + params->sq_entries * sizeof(unsigned int);
	size_t answers = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);

	if (!(params->features & IORING_FEAT_SINGLE_MMAP)) {
		errno = ENOSYS;
		return false;
	}
	return map(&ring->rings, ring->fd, entries > answers ? entries : answers,
	           IORING_OFF_SQ_RING) &&
	       map(&ring->entries, ring->fd, params->sq_entries * sizeof(struct io_uring_sqe),
	           IORING_OFF_SQES);
}

struct ring *ring_new(unsigned int most)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	struct io_uring_params params;
	int failure;

	if (!ring)
		return NULL;
	ring->fd = set_up(most, &params);
	if (ring->fd >= 0 && map_parts(ring, &params)) {
		find_parts(ring, &params);
		return ring;
	}
	failure = errno;
	ring_free(&ring);
	errno = failure;
	return NULL;
}

static void unmap(const struct area *area)
{
	if (area->at)
		munmap(area->at, area->size);
}

void ring_free(struct ring **ring)
{
	if (!*ring)
		return;
	unmap(&(*ring)->entries);
	unmap(&(*ring)->rings);
	if ((*ring)->fd >= 0)
		close((*ring)->fd);
	free(*ring);
	*ring = NULL;
}

static void fill_queue(struct ring *ring, const struct ring_send *sends, unsigned int count)
{
	unsigned int tail = *ring->entry_tail;

	for (unsigned int i = 0; i < count; i++)
		ring->entry[(tail + i) & ring->entry_mask] = (struct io_uring_sqe){
			.opcode = IORING_OP_SEND,
			.fd = sends[i].fd,
			.addr = (uintptr_t)sends[i].at,
			.len = (uint32_t)sends[i].count,
			.msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT,
			.user_data = i,
		};
	__atomic_store_n(ring->entry_tail, tail + count, __ATOMIC_RELEASE);
}

/* Stores the results of finished sends. Returns how many there were. */
static unsigned int take_answers(struct ring *ring, struct ring_send *sends)
{
	unsigned int head = *ring->answer_head, begin = head;
	unsigned int tail = __atomic_load_n(ring->answer_tail, __ATOMIC_ACQUIRE);

	for (; head != tail; head++) {
		const struct io_uring_cqe *answer = &ring->answer[head & ring->answer_mask];

		sends[answer->user_data].done = answer->res;
	}
	__atomic_store_n(ring->answer_head, head, __ATOMIC_RELEASE);
	return head - begin;
}

static int enter_kernel(const struct ring *ring, unsigned int count, unsigned int answers)
{
	return (int)syscall(SYS_io_uring_enter, ring->fd, count, answers,
	                    answers ? IORING_ENTER_GETEVENTS : 0U, NULL, 0);
}

unsigned int ring_send(struct ring *ring, struct ring_send *sends, unsigned int count)
{
	int taken;
	unsigned int done = 0;

	fill_queue(ring, sends, count);
	taken = enter_kernel(ring, count, 0);
	/*
	 * The kernel reads the tail only during the call, so entries that it did not accept can
	 * be taken back.
	 */
	__atomic_store_n(ring->entry_tail, *ring->entry_head, __ATOMIC_RELEASE);
	if (taken <= 0)
		return 0;
	/* A send with MSG_DONTWAIT is finished immediately; wait only if a kernel defers it. */
	while ((done += take_answers(ring, sends)) < (unsigned int)taken)
		enter_kernel(ring, 0, (unsigned int)taken - done);
	return (unsigned int)taken;
}

#else

struct ring {
	int fd;
};

struct ring *ring_new(unsigned int most)
{
	(void)most;
	errno = ENOSYS;
	return NULL;
}

void ring_free(struct ring **ring) { *ring = NULL; }

unsigned int ring_send(struct ring *ring, struct ring_send *sends, unsigned int count)
{
	(void)ring;
	(void)sends;
	(void)count;
	return 0;
}

#endif
