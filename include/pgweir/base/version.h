/* SPDX-License-Identifier: ISC */
/*
 * Our name and version. Tools read the first version number in the output of SHOW VERSION and
 * compare it: that is the version of the PgBouncer we are compatible with.
 */
#ifndef PGWEIR_BASE_VERSION_H
#define PGWEIR_BASE_VERSION_H

#define VERSION_COMPATIBLE "1.26.1"
#define VERSION_OWN PACKAGE_NAME " " PACKAGE_VERSION /* pgweir X.Y.Z */
#define VERSION_SHOW "PgBouncer " VERSION_COMPATIBLE " (" VERSION_OWN ")"

#endif
