/* SPDX-License-Identifier: ISC */
/*
 * Includes OpenSSL's headers beside our own errors: both define ERR_STATE.
 */
#ifndef PGWEIR_NET_OPENSSL_PRIV_H
#define PGWEIR_NET_OPENSSL_PRIV_H

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#endif
