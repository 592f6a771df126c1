/* SPDX-License-Identifier: ISC */
/*
 * One field of a snapshot, selected by its row in the table of settings.
 */
#ifndef PGWEIR_CONFIG_FIELD_PRIV_H
#define PGWEIR_CONFIG_FIELD_PRIV_H

#include "pgweir/config/settings.h"

/* Sets the value from text. false: *err is the reason, the field has not changed. */
bool field_put(struct config *config, const struct setting *setting, const char *text,
               struct err *err);

/*
 * The same, but a number out of range is replaced by the nearest valid one; then *note says so,
 * otherwise it is ERR_NONE. A few settings refuse such a number: a port, an id, permissions.
 */
bool field_put_near(struct config *config, const struct setting *setting, const char *text,
                    struct err *note, struct err *err);

/* Sets the field to its default. */
bool field_reset(struct config *config, const struct setting *setting, struct err *err);

/* Copies a field. false: no memory, `to` has not changed. */
bool field_copy(struct config *to, const struct config *from, const struct setting *setting);

bool field_equal(const struct config *a, const struct config *b, const struct setting *setting);

/* Returns the value as SHOW CONFIG shows it, in `buffer` if it has to be built; NULL = unset. */
const char *field_text(const struct config *config, const struct setting *setting, char *buffer,
                       size_t size);

/* Formats a number as it is usually written for this setting. */
void field_number_text(const struct setting *setting, int64_t value, char *buffer, size_t size);

void field_free(struct config *config, const struct setting *setting);

#endif
