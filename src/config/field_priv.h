/* SPDX-License-Identifier: ISC */
/*
 * One field of a snapshot, by its row in the table of settings.
 */
#ifndef PGWEIR_CONFIG_FIELD_PRIV_H
#define PGWEIR_CONFIG_FIELD_PRIV_H

#include "pgweir/config/settings.h"

/* Takes the value from text. false: *err is the reason, the field is as it was. */
bool field_put(struct config *config, const struct setting *setting, const char *text,
               struct err *err);

/*
 * The same, but a number out of its range is taken as the nearest in it; then *note says so, or is
 * ERR_NONE. A few settings have no near value: a port, an id, permissions.
 */
bool field_put_near(struct config *config, const struct setting *setting, const char *text,
                    struct err *note, struct err *err);

/* Gives the field its default. */
bool field_reset(struct config *config, const struct setting *setting, struct err *err);

/* false: no memory, `to` is as it was. */
bool field_copy(struct config *to, const struct config *from, const struct setting *setting);

bool field_equal(const struct config *a, const struct config *b, const struct setting *setting);

/* The value as SHOW CONFIG shows it, in `room` where it has to be made; NULL = unset. */
const char *field_text(const struct config *config, const struct setting *setting, char *buffer,
                       size_t size);

/* A number in the way that people write this setting. */
void field_number_text(const struct setting *setting, int64_t value, char *buffer, size_t size);

void field_free(struct config *config, const struct setting *setting);

#endif
