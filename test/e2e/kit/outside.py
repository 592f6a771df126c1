# SPDX-License-Identifier: ISC
"""Checks for methods with an external password check: PAM, LDAP."""

from .wire import refusal

LONG = "x" * 65000


def told(weir, *args, **kw):
    """The error of a refused login."""
    refused = refusal(weir.address, *args, **kw)
    return refused.sqlstate, refused.text


def check_passwords(weir, failed):
    """Correct passwords are accepted, all others are refused with the error `failed`."""
    # each logs in to PostgreSQL with the externally checked password
    for user in ("plain", "md5", "scram"):
        client = weir.client(f"{user}_user", password=f"{user} secret")
        assert client.auth_codes == [3, 0]
        assert client.value("SELECT current_user") == f"{user}_user"
    assert weir.connect(user="alice", password="alice secret").execute("SELECT 2").fetchone() == (2,)
    for wrong in ("incorrect", "bob secret", LONG, "alice secret "):
        assert told(weir, password=wrong) == failed
    assert told(weir, "mallory", password="alice secret") == failed
    assert told(weir, password="") == ("28P01", "empty password returned by client")
    assert told(weir, database="nowhere", password="wrong") == failed
    assert told(weir, database="nowhere", password="alice secret")[0] == "3D000"
