/* SPDX-License-Identifier: ISC */
/*
 * The tables that connect login, relay and statements with the core.
 */
#ifndef PGWEIR_CLIENT_CLIENT_STATES_PRIV_H
#define PGWEIR_CLIENT_CLIENT_STATES_PRIV_H

#include "client_priv.h"

extern const struct borrower_ops client_borrower_ops; /* client_borrower.c */
extern const struct client_ops client_states;         /* client_states.c */

#endif
