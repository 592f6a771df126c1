# SPDX-License-Identifier: ISC
"""Explanations of a configuration: all problems at once, all settings, effects of a reload."""

import re

import pytest

from .kit.daemon import with_loops


def lines(done):
    return [line for line in (done.stdout + done.stderr).splitlines() if line]


def changes(weir, text, name="next.ini"):
    """The output of --against for a file with this text."""
    path = f"{weir.dir}/{name}"
    weir.account.write(path, with_loops(text, weir.loops))
    done = weir.run("--check", path, "--against", weir.socket_path)
    assert done.returncode == 0, done.stderr
    said = lines(done)
    assert said[1] == "a RELOAD with this file would change:"
    return said[2:]


# -- --check --------------------------------------------------------------------------------------


def test_check_says_all_that_is_wrong_in_all_files(make_pgweir):
    weir = make_pgweir()
    weir.configure(auth_type="hba", auth_hba_file=f"{weir.dir}/bad.hba",
                   default_pool_size="many", no_such_setting="1",
                   client_tls_sslmode="require", client_tls_cert_file="/nowhere/cert",
                   client_tls_key_file="/nowhere/key", server_tls_sslmode="verify-ca",
                   server_tls_ca_file="/nowhere/ca")
    weir.account.write(f"{weir.dir}/bad.hba", "local all\nhost all all nowhere nothing\n")
    weir.account.write(weir.userlist, '"alice" "x"\nbob x\n"carol" "x\n"dave" "x"\n"" "x"\n')
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    numbers = {line.split(" = ")[0]: number
               for number, line in enumerate(weir.text().splitlines(), 1)}
    said = "\n".join(lines(done))
    for pattern in (
            rf"^{weir.ini}:{numbers['default_pool_size']}: setting \"default_pool_size\": ",
            rf"^{weir.ini}:{numbers['no_such_setting']}: unknown setting \"no_such_setting\"",
            rf"^{weir.ini}:{numbers['client_tls_cert_file']}: client_tls_cert_file: .*/nowhere/cert",
            rf"^{weir.ini}:{numbers['server_tls_ca_file']}: server_tls_ca_file: .*/nowhere/ca",
            rf"^{weir.dir}/bad.hba:1: ", rf"^{weir.dir}/bad.hba:2: ",
            rf"^{weir.userlist}:2: ", rf"^{weir.userlist}:3: ", rf"^{weir.userlist}:5: "):
        assert re.search(pattern, said, re.MULTILINE), (pattern, said)
    assert "is good" not in said


def test_check_says_which_line_names_a_file_that_is_not_there(make_pgweir):
    weir = make_pgweir()
    weir.account.write(f"{weir.dir}/more.ini", "\nauth_file = /nowhere/users\n")
    weir.configure(ini=weir.text() + f"%include {weir.dir}/more.ini\n")
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert lines(done) == [f'{weir.dir}/more.ini:2: auth_file: cannot open '
                           "/nowhere/users: No such file or directory"]


def test_check_of_a_good_file_with_tls(make_pgweir, own):
    weir = make_pgweir()
    weir.configure(client_tls_sslmode="require", client_tls_cert_file=own.cert,
                   client_tls_key_file=own.key)
    done = weir.run("--check", weir.ini)
    assert (done.returncode, done.stderr) == (0, "")


# -- --dump-settings ------------------------------------------------------------------------------


def test_dump_of_one_setting(make_pgweir):
    weir = make_pgweir()
    done = weir.run("--dump-settings", "pool_mode")
    assert done.returncode == 0
    assert done.stdout.startswith("pool_mode\n    When a server connection returns")
    assert "kind: one of session, transaction, statement" in done.stdout
    assert done.stdout in weir.run("--dump-settings").stdout
    done = weir.run("--dump-settings", "pool_mod")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'unknown setting "pool_mod": did you mean "pool_mode"?' in done.stderr


def test_dump_has_what_show_config_has(make_pgweir):
    weir = make_pgweir().start()
    done = weir.run("--dump-settings")
    assert done.returncode == 0
    named = re.findall(r"^([a-z_0-9]+)$", done.stdout, re.MULTILINE)
    assert sorted(named) == sorted(row["key"] for row in weir.admin("SHOW CONFIG"))
    for row in weir.admin("SHOW CONFIG"):
        about = done.stdout.split(f"\n\n{row['key']}\n")[1].split("\n\n")[0]
        wanted = "RELOAD or SET" if row["changeable"] == "yes" else "restart"
        assert f"changes with: {wanted}" in about


# -- --against ------------------------------------------------------------------------------------


def test_nothing_changes(make_pgweir):
    weir = make_pgweir().start()
    assert changes(weir, weir.text()) == ["nothing"]


def test_what_a_reload_would_change(make_pgweir):
    weir = make_pgweir().start()
    text = weir.text().replace("app2 = ", "app4 = ")
    text += "default_pool_size = 7\nlisten_backlog = 9\n"
    said = changes(weir, text)
    assert "default_pool_size: 20 -> 7" in said
    assert "listen_backlog: 128 -> 9 (needs a restart)" in said
    assert 'database "app2": gone' in said and 'database "app4": new' in said
    assert 'database "app": changed pool_size' in said
    # nothing was changed
    assert {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}["default_pool_size"] == "20"


def test_what_it_says_is_what_a_reload_says(make_pgweir):
    weir = make_pgweir().start()
    weir.admin("SET query_timeout = 9")
    text = weir.text() + f"pool_mode = statement\npidfile = {weir.dir}/pid\n"
    said = changes(weir, text)
    weir.configure(ini=text)
    answer = weir.ask_admin("RELOAD")
    assert answer.tags == ["RELOAD"]
    assert [notice["M"] for notice in answer.notices] == said
    assert said == [f"pidfile: empty -> {weir.dir}/pid (needs a restart)",
                    "pool_mode: session -> statement", "query_timeout: 9 -> 0"]
    weir.wait_log("changed in the configuration: pidfile, pool_mode, query_timeout")


def test_a_reload_names_entries_and_no_secrets(make_pgweir):
    weir = make_pgweir().start()
    since = len(weir.log)
    weir.configure(databases={"app": "password=sesame user=alice", "app3": ""},
                   users={"bob": "pool_size=3"})
    said = [notice["M"] for notice in weir.ask_admin("RELOAD").notices]
    assert said == ['database "app": changed password, user (its servers are replaced)',
                    'database "app2": gone', 'user "bob": new']
    assert "sesame" not in weir.log[since:]


def test_a_reload_without_changes_says_nothing(make_pgweir):
    weir = make_pgweir().start()
    answer = weir.ask_admin("RELOAD")
    assert (answer.tags, answer.notices) == (["RELOAD"], [])


def test_a_reload_that_fails_names_no_changes(make_pgweir):
    weir = make_pgweir().start()
    weir.configure(ini=weir.text() + "default_pool_size = 7\nno_such_setting = 1\n")
    answer = weir.ask_admin("RELOAD")
    assert answer.error["M"].startswith("RELOAD failed")
    assert len(answer.notices) == 1 and "no_such_setting" in answer.notices[0]["M"]


@pytest.mark.parametrize("socket, says", (("/nowhere/socket", "No such file"),
                                          ("/" + "x" * 200, "is longer than 107 bytes")))
def test_nobody_there_to_ask(make_pgweir, socket, says):
    weir = make_pgweir()
    done = weir.run("--check", weir.ini, "--against", socket)
    assert done.returncode == 1
    assert "is good" in done.stdout and says in done.stderr


def test_what_answers_may_be_no_console(make_pgweir, postgres):
    weir = make_pgweir()
    done = weir.run("--check", weir.ini, "--against",
                    f"{postgres.socket_dir}/.s.PGSQL.{postgres.port}")
    assert done.returncode == 1 and done.stderr
