/* SPDX-License-Identifier: ISC */
/*
 * Asks a server for encryption.
 *
 *   SSLRequest -->   <-- 'S' and no further byte    handshake
 *                    <-- 'N'                        plain, if allowed
 *
 * Hard here: nothing that arrives before the end of the handshake can be trusted. Bytes after the
 * 'S' are not encrypted, so an attacker may have inserted them.
 */
#include "securing_priv.h"

#include "pgweir/pgwire/message.h"

static enum securing failed(struct err *err, const char *reason)
{
	err_set(err, ERR_SERVER_CONNECT, "%s", reason);
	return SECURING_FAILED;
}

static enum securing failed_for(struct err *err, enum close_reason reason, const char *words)
{
	err_set(err, ERR_SERVER_CONNECT, "%s", words);
	err_reason(err, reason);
	return SECURING_FAILED;
}

static enum securing shake(struct stream *stream, const struct securing_how *how, struct err *err)
{
	bool begins = how->like
	                  ? stream_secure_like(stream, how->like, err)
	                  : stream_secure(stream, how->tls, how->host, (struct bytes){ 0 }, err);

	return begins ? SECURING_MORE : SECURING_FAILED;
}

enum securing securing_begin(struct stream *stream, const struct securing_how *how, struct err *err)
{
	struct buf out = { 0 };
	bool is_sent;

	if (!how->tls && !how->like)
		return SECURING_PLAIN;
	if (how->is_direct)
		return shake(stream, how, err);
	message_tls_request(&out);
	is_sent =
	    buf_ok(&out) && stream_send(stream, buf_bytes(&out)) && stream_want(stream, WANT_INPUT);
	buf_free(&out);
	return is_sent ? SECURING_MORE : failed(err, "server closed the connection");
}

enum securing securing_answer(struct stream *stream, const struct securing_how *how,
                              struct err *err)
{
	struct bytes in;

	switch (stream_read(stream, &in)) {
	case STREAM_NOTHING:
		return SECURING_MORE;
	case STREAM_END:
		return failed_for(err, CLOSE_SERVER_LOGIN_CLOSED,
		                  "server closed the connection during login");
	default:
		break;
	}
	if (in.count > 1)
		return failed_for(err, CLOSE_EARLY_DATA,
		                  "received unencrypted data after SSL response");
	if (in.at[0] == 'N')
		return how->is_required ? failed(err, "server refused SSL") : SECURING_PLAIN;
	if (in.at[0] != 'S')
		return failed(err, "server gave no answer to the SSL request that makes sense");
	if (!how->tls && !how->like) /* a reload came between the SSLRequest and the reply */
		return failed_for(err, CLOSE_SERVER_TLS_STOPPED, "database configuration changed");
	return shake(stream, how, err);
}
