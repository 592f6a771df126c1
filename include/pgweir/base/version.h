/* SPDX-License-Identifier: ISC */
/*
 * What we call ourselves. Tools look for the first version number in what SHOW
 * VERSION says and compare it: it is that of the PgBouncer we are compatible with.
 */
#ifndef PGWEIR_BASE_VERSION_H
#define PGWEIR_BASE_VERSION_H

#define VERSION_COMPATIBLE "1.26.1"
#define VERSION_OWN PACKAGE_NAME " " PACKAGE_VERSION /* pgweir X.Y.Z */
/* As SHOW VERSION says it. */
#define VERSION_SHOW "PgBouncer " VERSION_COMPATIBLE " (" VERSION_OWN ")"

#endif
