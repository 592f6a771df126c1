# SPDX-License-Identifier: ISC
"""What the whole-daemon tests are built from.

wait      polling with a limit, never a fixed sleep
account   the unprivileged user that daemons run as
postgres  a real PostgreSQL
daemon    the pooler under test
wire      a scripted client, byte by byte
fake      a scripted server, byte by byte
names     a name server
directory an LDAP server
terminal  a program that wants a terminal
"""
