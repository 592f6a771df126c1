/* SPDX-License-Identifier: ISC */
/*
 * A round of a take-over: its records, dealt to the lanes.
 */
#ifndef PGWEIR_MAIN_TAKEOVER_DEAL_H
#define PGWEIR_MAIN_TAKEOVER_DEAL_H

#include "pgweir/client/handover.h"

/* Uses all records of a round. arrivals: one for each lane. The lanes must be held. */
void takeover_deal(const struct lanes *lanes, struct pools_arrival *arrivals,
                   struct channel_messages *round);

#endif
