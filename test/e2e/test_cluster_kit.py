# SPDX-License-Identifier: ISC
"""The kit's cluster: what tests of roles, failover and reads rely on."""


def test_a_cluster_streams_fails_over_and_takes_the_old_primary_back(make_cluster):
    cluster = make_cluster(standbys=2, is_synchronous=True)
    first = cluster.primary
    first.query("CREATE TABLE kept (id int)")
    first.query("INSERT INTO kept VALUES (1)")
    for host in cluster.standbys:
        cluster.wait_replayed(host, first)
        assert host.query("SELECT id FROM kept") == [(1,)]
    first.kill()
    second = cluster.fail_over()
    assert cluster.primary is second
    second.query("INSERT INTO kept VALUES (2)")  # returns as the other standby follows
    first.rewind(second).start()
    cluster.wait_streaming(first)
    cluster.wait_replayed(first, second)
    assert first.query("SELECT id FROM kept ORDER BY id") == [(1,), (2,)]
    assert first in cluster.standbys
