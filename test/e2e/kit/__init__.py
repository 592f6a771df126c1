# SPDX-License-Identifier: ISC
"""Building blocks of the end-to-end tests.

wait      polling with a limit, never a fixed sleep
account   the unprivileged user that daemons run as
postgres  a real PostgreSQL
cluster   a primary and its streaming standbys
daemon    the pooler under test
wire      a scripted client, byte by byte
fake      a scripted server, byte by byte
names     a DNS server
directory an LDAP server
terminal  a program that needs a terminal
"""
