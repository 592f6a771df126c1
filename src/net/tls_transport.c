/* SPDX-License-Identifier: ISC */
/*
 * The transport of a TLS engine: a BIO that reads the bytes of the current call and writes to
 * its buffer.
 */
#include <string.h>

#include "openssl_priv.h"
#include "tls_priv.h"

#include "pgweir/base/banned.h"

static int transport_read(BIO *bio, char *out, int size)
{
	struct tls *tls = BIO_get_data(bio);
	size_t count = tls->in.count < (size_t)size ? tls->in.count : (size_t)size;

	BIO_clear_retry_flags(bio);
	if (count == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, tls->in.at, count);
	tls->in = bytes_skip(tls->in, count);
	return (int)count;
}

static int transport_write(BIO *bio, const char *bytes, int count)
{
	struct tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (!tls->out)
		return -1;
	buf_add(tls->out, bytes, (size_t)count);
	return buf_ok(tls->out) ? count : -1;
}

static long transport_control(BIO *bio, int command, long number, void *arg)
{
	(void)bio;
	(void)number;
	(void)arg;
	return command == BIO_CTRL_FLUSH;
}

struct bio_method_st *tls_transport_new(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_MEM, "pgweir");

	if (!method)
		return NULL;
	BIO_meth_set_read(method, transport_read);
	BIO_meth_set_write(method, transport_write);
	BIO_meth_set_ctrl(method, transport_control);
	return method;
}
