/* SPDX-License-Identifier: ISC */
/*
 * The outbox.
 *
 *   streams --> [bytes | bytes | bytes ...] --> end of the turn --> sockets, all with one call
 *                                                               \-> not accepted: unsent
 *
 * Hard here: the bytes of a stream must stay in order. A stream has at most one pending send,
 * which can grow only while it is the last one; otherwise all are sent first. And no owner is
 * called back while the outbox is being sent: bytes of a broken connection become
 * unsent output, and the owner is notified in the next turn.
 */

#include <errno.h>
#include <stdint.h>
#include <linux/io_uring.h>
#include <sys/mman.h>

#include "stream_priv.h"

/* Small enough for the processor's caches, and so that the first send does not wait long. */
#define SENDS_MAX 64
#define OUTBOX_SIZE ((size_t)32 * 1024)

/* Longer output is sent immediately: copying it would cost more than the saved system call. */
#define SEND_SIZE_MAX ((size_t)2048)

struct outbox {
	struct loop *loop;
	const struct logger *logger;
	struct ring *ring; /* NULL: not created (yet), or not available */
	bool wants_ring;
	unsigned int count;
	size_t used;
	struct stream *streams[SENDS_MAX]; /* owner of each pending send; NULL: it was sent early */
	struct ring_send sends[SENDS_MAX];
	char bytes[OUTBOX_SIZE];
};

_Static_assert(SENDS_MAX <= UINT8_MAX, "a stream numbers its pending send with 8 bits");

/* ---- sending ---- */

/*
 * Created lazily: daemonize() forks, and an io_uring instance must be created after that. The
 * kernel lets only the thread use it that created it, so a thread that holds the loop sends
 * without.
 */
static bool may_use_ring(struct outbox *outbox)
{
	if (!outbox->wants_ring || !loop_is_in_turn(outbox->loop))
		return false;
	if (outbox->ring)
		return true;
	outbox->ring = ring_new(SENDS_MAX);
	outbox->wants_ring = outbox->ring != NULL;
	if (!outbox->ring)
		log_info(outbox->logger,
		         "io_uring is not available (%s): using one system call per write",
		         strerror(errno));
	return outbox->ring != NULL;
}

static void send_one(struct ring_send *send)
{
	ssize_t done = socket_send(send->fd, send->at, send->count);

	send->done = done < 0 ? -errno : (int)done;
}

/* Whether a kernel with io_uring does not support this operation. */
static bool is_unknown(const struct ring_send *send)
{
	return send->done == -EINVAL || send->done == -EOPNOTSUPP;
}

static void send_all(struct outbox *outbox)
{
	struct ring_send *sends = outbox->sends;
	unsigned int count = outbox->count, tried = 0;

	if (count > 1 && may_use_ring(outbox)) {
		tried = ring_send(outbox->ring, sends, count);
		if (!tried || is_unknown(&sends[0])) {
			ring_free(&outbox->ring);
			outbox->wants_ring = false;
		}
	}
	for (unsigned int i = 0; i < count; i++)
		if (i >= tried || is_unknown(&sends[i]))
			send_one(&sends[i]);
}

static void leave_rest_unsent(const struct ring_send *send, struct stream *stream)
{
	size_t done = send->done < 0 ? 0 : (size_t)send->done;

	if (done < send->count)
		stream->pool->leave_unsent(
		    stream, bytes_of((const char *)send->at + done, send->count - done));
}

/* Removes sends that were done early, and detaches the others from their streams. */
static void collect(struct outbox *outbox)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < outbox->count; i++) {
		if (!outbox->streams[i])
			continue;
		outbox->streams[i]->pending_send = 0;
		outbox->streams[count] = outbox->streams[i];
		outbox->sends[count++] = outbox->sends[i];
	}
	outbox->count = count;
}

void outbox_send(struct outbox *outbox)
{
	if (!outbox->count)
		return;
	collect(outbox);
	send_all(outbox);
	for (unsigned int i = 0; i < outbox->count; i++)
		leave_rest_unsent(&outbox->sends[i], outbox->streams[i]);
	outbox->count = 0;
	outbox->used = 0;
}

static void end_turn(void *arg) { outbox_send(arg); }

size_t outbox_pending(const struct outbox *outbox, const struct stream *stream)
{
	return outbox->sends[stream->pending_send - 1].count;
}

void outbox_push(struct outbox *outbox, struct stream *stream)
{
	struct ring_send *send = &outbox->sends[stream->pending_send - 1];

	outbox->streams[stream->pending_send - 1] = NULL;
	stream->pending_send = 0;
	send_one(send);
	leave_rest_unsent(send, stream);
}

/* ---- adding ---- */

bool outbox_take(struct outbox *outbox, struct stream *stream, const struct iovec *pieces,
                 int count, size_t whole)
{
	if (whole > SEND_SIZE_MAX)
		return false;
	/* Only the last one can grow. */
	if (stream->pending_send &&
	    (stream->pending_send != outbox->count || outbox->used + whole > OUTBOX_SIZE))
		outbox_send(outbox);
	if (stream->out)
		return false; /* outbox_send() has just left unsent output */
	if (!stream->pending_send) {
		if (outbox->count == SENDS_MAX || outbox->used + whole > OUTBOX_SIZE)
			outbox_send(outbox);
		outbox->streams[outbox->count] = stream;
		outbox->sends[outbox->count++] =
		    (struct ring_send){ .fd = stream->watch.fd,
			                .at = outbox->bytes + outbox->used };
		stream->pending_send = outbox->count;
	}
	for (int i = 0; i < count; i++) {
		memcpy(outbox->bytes + outbox->used, pieces[i].iov_base, pieces[i].iov_len);
		outbox->used += pieces[i].iov_len;
	}
	outbox->sends[stream->pending_send - 1].count += whole;
	return true;
}

/* ---- creation and end ---- */

struct outbox *outbox_new(struct loop *loop, const struct logger *logger)
{
	struct outbox *outbox = calloc(1, sizeof(*outbox));

	if (!outbox)
		return NULL;
	outbox->loop = loop;
	outbox->logger = logger;
	loop_at_turn_end(loop, end_turn, outbox);
	return outbox;
}

void outbox_free(struct outbox **outbox)
{
	if (!*outbox)
		return;
	loop_at_turn_end((*outbox)->loop, NULL, NULL);
	ring_free(&(*outbox)->ring);
	free(*outbox);
	*outbox = NULL;
}

void outbox_use_ring(struct outbox *outbox, bool is_wanted)
{
	outbox->wants_ring = is_wanted;
	if (!is_wanted)
		ring_free(&outbox->ring);
}

/*
 * ---- ring: sends through io_uring ----
 *
 *   sends --> entries, tail --> io_uring_enter() --> answers --> done
 *
 * Hard here: the kernel reads and writes the memory of entries and answers too. So an index
 * that we write is stored after the data it publishes (release), and an index that the kernel
 * writes is loaded before that data (acquire).
 */

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
	/* The kernel reads the tail only during the call: what it did not accept is taken back. */
	__atomic_store_n(ring->entry_tail, *ring->entry_head, __ATOMIC_RELEASE);
	if (taken <= 0)
		return 0;
	/* A send with MSG_DONTWAIT is finished immediately; wait only if a kernel defers it. */
	while ((done += take_answers(ring, sends)) < (unsigned int)taken)
		enter_kernel(ring, 0, (unsigned int)taken - done);
	return (unsigned int)taken;
}
