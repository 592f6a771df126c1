# SPDX-License-Identifier: ISC
"""The samples for containers: files and options they use exist, and they are consistent. And the
image's entry point: what it makes of the variables of other images.
"""

import contextlib
import os
import re
import signal
import subprocess

import psycopg
import pytest

from .kit.account import free_port
from .kit.daemon import SANITIZERS, find_binary
from .kit.wait import wait_exit, wait_until

yaml = pytest.importorskip("yaml")

ETC = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "etc"))


def read(name):
    with open(os.path.join(ETC, name), encoding="utf-8") as file:
        return file.read()


def ask(*args):
    return subprocess.run([find_binary(), *args], capture_output=True, text=True, timeout=30,
                          check=True).stdout


def objects():
    return {thing["kind"]: thing for thing in yaml.safe_load_all(read("kubernetes/pgweir.yaml"))}


def container():
    (one,) = objects()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def settings_of(text):
    return dict(re.findall(r"^(\w+) = (.*)$", text.partition("[pgbouncer]")[2], re.MULTILINE))


INIS = {"compose": lambda: read("container/pgweir.ini"),
        "kubernetes": lambda: objects()["ConfigMap"]["data"]["pgweir.ini"]}


@pytest.mark.parametrize("name", ("container/Containerfile", "container/compose.yaml",
                                  "kubernetes/pgweir.yaml"))
def test_options_are_known(name):
    options = {word for word in re.findall(r"pgweir\"?,? \"?(--[a-z-]+)", read(name))}
    assert "--ready" in options
    assert options <= set(re.findall(r"--[a-z-]+", ask("--help")))


def test_the_image_is_of_this_version():
    assert "pgweir " + container()["image"].partition(":")[2] == ask("--version").splitlines()[0]


@pytest.mark.parametrize("where", INIS)
def test_the_configuration_is_good(make_pgweir, account, where):
    text = INIS[where]()
    settings = settings_of(text)
    assert set(settings) <= set(re.findall(r"^(\w+)$", ask("--dump-settings"), re.MULTILINE))
    weir = make_pgweir()
    account.write(weir.ini, text.replace(settings["auth_file"], weir.userlist))
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", INIS)
def test_probes_ask_at_the_socket(where):
    settings = settings_of(INIS[where]())
    socket = f"{settings['unix_socket_dir']}/.s.PGSQL.{settings['listen_port']}"
    if where == "compose":
        service = yaml.safe_load(read("container/compose.yaml"))["services"]["pgweir"]
        assert service["healthcheck"]["test"] == ["CMD", "pgweir", "--ready", socket]
        assert f'["pgweir", "--ready", "{socket}"]' in read("container/Containerfile")
    else:
        assert container()["readinessProbe"]["exec"]["command"] == ["pgweir", "--ready", socket]


def test_the_deployment_fits_together():
    things = objects()
    assert set(things) == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
    spec = things["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    for selector in (spec["selector"]["matchLabels"], things["Service"]["spec"]["selector"],
                     things["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert things["Service"]["spec"]["ports"][0]["targetPort"] in ports
    mounts = {mount["name"] for mount in container()["volumeMounts"]}
    assert mounts == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    settings = settings_of(INIS["kubernetes"]())
    ending = [seconds_of(settings[name]) for name in ("shutdown_accept", "shutdown_drain")]
    assert ending[0] > 0 and "lifecycle" not in container()
    assert sum(ending) < spec["template"]["spec"]["terminationGracePeriodSeconds"]


def seconds_of(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def test_compose_waits_for_the_drain():
    service = yaml.safe_load(read("container/compose.yaml"))["services"]["pgweir"]
    assert seconds_of(settings_of(INIS["compose"]())["shutdown_drain"]) < \
        seconds_of(service["stop_grace_period"])
    assert "STOPSIGNAL SIGTERM" in read("container/Containerfile")


# -- the entry point ------------------------------------------------------------------------------

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] [A-Z]+ ")


class Image:
    """The entry point with the directory that is / in the image."""

    def __init__(self, account, binary, folder):
        self.account = account
        self.dir = account.mkdir(folder)
        for name in ("bin", "etc", "etc/pgbouncer", "etc/pgweir", "tmp"):
            account.mkdir(f"{self.dir}/{name}")
        os.symlink(binary, f"{self.dir}/bin/pgbouncer")
        self.entrypoint = account.write(f"{self.dir}/entrypoint", read("container/entrypoint"), 0o755)

    def start(self, *args, **variables):
        command = ["/usr/bin/env", "-i", f"PATH={self.dir}/bin:/usr/bin:/bin",
                   f"PGWEIR_IMAGE_ROOT={self.dir}",
                   *(f"{name}={value}{self.dir}/sanitizer" for name, value in SANITIZERS.items()),
                   *(f"{name}={value}" for name, value in variables.items())]
        return self.account.popen([*command, self.entrypoint, *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, cwd=self.dir)

    def run(self, *args, **variables):
        with self.start(*args, **variables) as process:
            out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def made(self):
        """The text of the configuration and that of the user list."""
        (place,) = os.listdir(f"{self.dir}/tmp")
        assert os.stat(f"{self.dir}/tmp/{place}").st_mode & 0o777 == 0o700
        texts = []
        for name in ("pgbouncer.ini", "userlist.txt"):
            with open(f"{self.dir}/tmp/{place}/{name}", encoding="utf-8") as file:
                texts.append(file.read().replace(f"{self.dir}/tmp/{place}", "PLACE"))
        return texts


@pytest.fixture
def image(account, binary, place, request):
    return Image(account, binary, os.path.join(place, re.sub(r"\W", "_", request.node.name)))


ZALANDO = dict(PGHOST="acid.default.svc", PGPORT="5433", PGUSER="pooler", PGPASSWORD="p w'\"x",
               PGSCHEMA="pool", CONNECTION_POOLER_MODE="transaction", CONNECTION_POOLER_PORT="5432",
               CONNECTION_POOLER_DEFAULT_SIZE="7", CONNECTION_POOLER_RESERVE_SIZE="2",
               CONNECTION_POOLER_MAX_CLIENT_CONN="500", CONNECTION_POOLER_MAX_DB_CONN="60",
               CONNECTION_POOLER_MIN_SIZE="1", INFRASTRUCTURE_ROLES="robot_zmon,robot_b")
BITNAMI = dict(POSTGRESQL_HOST="db", POSTGRESQL_PASSWORD="secret", POSTGRESQL_USERNAME="o'neil",
               PGBOUNCER_PORT="6000", PGBOUNCER_POOL_MODE="transaction", PGBOUNCER_AUTH_TYPE="md5",
               PGBOUNCER_SET_DATABASE_USER="yes", PGBOUNCER_SET_DATABASE_PASSWORD="yes",
               PGBOUNCER_CONNECT_QUERY="select 'x'", PGBOUNCER_USERLIST='"a" "b"\n"c" "d"',
               PGBOUNCER_DSN_0="app=host=a port=5", PGBOUNCER_DSN_1="*=host=b",
               PGBOUNCER_TCP_KEEPIDLE="60", PGBOUNCER_SERVER_TLS_SSLMODE="prefer")
EDOBURU = dict(DB_HOST="db", DB_USER="app", DB_PASSWORD="secret", POOL_MODE="transaction",
               DEFAULT_POOL_SIZE="9", ADMIN_USERS="adm", ADMIN_PASSWORD="pw", STATS_USERS="s1,s2",
               STATS_PASSWORDS="x,y", SERVER_RESET_QUERY="DISCARD ALL", LISTEN_PORT="6001")

# The variables, the lines that they become, and the list of users.
MADE = {
    "zalando": (ZALANDO, """
* = host='acid.default.svc' port='5433' auth_user='pooler'
admin_users = pooler
auth_dbname = postgres
auth_query = SELECT * FROM pool.user_lookup($1)
auth_type = md5
client_tls_cert_file = PLACE/server.crt
client_tls_key_file = PLACE/server.key
client_tls_sslmode = require
default_pool_size = 7
idle_transaction_timeout = 600
ignore_startup_parameters = extra_float_digits,options
listen_addr = *
listen_port = 5432
max_client_conn = 500
max_db_connections = 60
pool_mode = transaction
reserve_pool_size = 2
server_login_retry = 5
server_tls_sslmode = require
stats_users = robot_zmon,robot_b""", '"pooler" "p w\'""x"\n'),
    "bitnami": (BITNAMI, """
"postgres" = host='db' port='5432' user='o''neil' password='secret' dbname='postgres' \
connect_query='select ''x'''
app=host=a port=5
*=host=b
admin_users = o'neil
auth_type = md5
client_tls_sslmode = disable
ignore_startup_parameters = extra_float_digits
listen_addr = 0.0.0.0
listen_port = 6000
pool_mode = transaction
server_tls_sslmode = prefer
tcp_keepidle = 60
unix_socket_dir = /tmp""", '"o\'neil" "secret"\n"a" "b"\n"c" "d"\n'),
    "edoburu": (EDOBURU, """
* = host='db' port='5432' auth_user='app'
admin_users = adm
auth_type = md5
default_pool_size = 9
ignore_startup_parameters = extra_float_digits
listen_addr = 0.0.0.0
listen_port = 6001
pool_mode = transaction
server_reset_query = DISCARD ALL
stats_users = s1,s2
unix_socket_dir =""", '"app" "secret"\n"adm" "pw"\n"s1" "x"\n"s2" "y"\n'),
    "urls": (dict(DATABASE_URLS="postgres://al%40ice:p%25w%5Cn@db.x:5433/app,"
                                "postgresql://bob@[::1]/other%22s"), """
"app" = host='db.x' port='5433' auth_user='al@ice'
"other""s" = host='::1' port='5432' auth_user='bob'
admin_users = postgres
auth_type = md5
ignore_startup_parameters = extra_float_digits
listen_addr = 0.0.0.0
listen_port = 5432
unix_socket_dir =""", '"al@ice" "p%w\\n"\n'),
}


@pytest.mark.parametrize("family", MADE)
def test_the_variables_become_a_good_configuration(image, family):
    variables, lines, users = MADE[family]
    done = image.run("--check", **variables)
    assert done.returncode == 0, done.stderr
    assert "the configuration is good" in done.stdout
    text, userlist = image.made()
    wanted = ["[databases]", "[pgbouncer]", "auth_file = PLACE/userlist.txt",
              *lines.strip().split("\n")]
    assert sorted(map(str.strip, text.splitlines())) == sorted(wanted)
    assert userlist == users
    said = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert all(LOG_LINE.match(line) for line in said), done.stderr
    assert not re.search(r"secret|p w", "".join(said))


@pytest.mark.parametrize("variables, says", (
    (dict(ZALANDO, CONNECTION_POOLER_COLOUR="red"), ["CONNECTION_POOLER_COLOUR is not understood"]),
    (dict(BITNAMI, PGBOUNCER_COLOUR="red"), ["PGBOUNCER_COLOUR is not understood"]),
    (dict(EDOBURU, POOL_SIZE="4", TIMEZONE="UTC", CLIENT_ENCODING="x", HOSTNAME="pod"),
     ["CLIENT_ENCODING is not understood", "POOL_SIZE is not understood",
      "TIMEZONE is not understood"]),
    # What Kubernetes adds for a Service of that name is no variable of the image.
    (dict(BITNAMI, PGBOUNCER_SERVICE_HOST="10.0.0.1", PGBOUNCER_SERVICE_PORT="6432",
          PGBOUNCER_PORT_6432_TCP_ADDR="10.0.0.1", PGBOUNCER_SERVICE_PORT_POSTGRES="6432",
          POSTGRESQL_PORT="tcp://10.0.0.1:5432"), []),
    (dict(BITNAMI, PGBOUNCER_AUTH_QUERY_FILE="/nowhere"),
     ["PGBOUNCER_AUTH_QUERY_FILE: cannot read /nowhere"]),
))
def test_what_is_not_understood_is_named(image, variables, says):
    done = image.run("--check", **variables)
    assert done.returncode == 0, done.stderr
    said = [line.partition(" WARNING ")[2].removeprefix("variable ")
            for line in done.stderr.splitlines() if " WARNING " in line]
    assert sorted(said) == says


@pytest.mark.parametrize("variables, says", (
    (dict(ZALANDO, PGHOST=""), "variable PGHOST is not set"),
    (dict(EDOBURU, DB_HOST="", DATABASE_URL="postgres:///x"), "variable DATABASE_URL: there is no"),
    (dict(EDOBURU, POOL_MODE="session\n[databases]"), "variable POOL_MODE: the value of pool_mode has"),
    (dict(BITNAMI, PGBOUNCER_DSN_1="x=\ny="), "variable PGBOUNCER_DSN_1 has more than one line"),
    (dict(BITNAMI, POSTGRESQL_PASSWORD="x\ny"), "has more than one line"),
    (dict(BITNAMI, PGBOUNCER_DSN_2_FILE="/nowhere", PGBOUNCER_FAIL_ON_INVALID_DSN_FILE="true"),
     "PGBOUNCER_DSN_2_FILE: cannot read /nowhere"),
))
def test_values_that_cannot_be_used(image, variables, says):
    done = image.run(**variables)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if " FATAL " in line]
    assert LOG_LINE.match(line) and says in line


def test_a_wrong_value_is_told_by_its_setting(image):
    done = image.run("--check", **dict(EDOBURU, POOL_MODE="quantum"))
    assert done.returncode == 1 and 'setting "pool_mode": "quantum"' in done.stderr


def test_secrets_from_files(image):
    path = image.account.write(f"{image.dir}/secret", "from a file\n", 0o600)
    variables = {name: value for name, value in BITNAMI.items() if name != "POSTGRESQL_PASSWORD"}
    done = image.run("--check", POSTGRESQL_PASSWORD_FILE=path, **variables)
    assert done.returncode == 0, done.stderr
    text, userlist = image.made()
    assert "password='from a file'" in text and '"from a file"\n' in userlist


@pytest.mark.parametrize("args", ((), ("pgbouncer",), ("{dir}/bin/pgbouncer", "-v"), ("{file}",),
                                  ("pgbouncer", "{file}", "-u", "{user}")))
def test_a_mounted_file_is_used_as_it_is(image, args):
    file = image.account.write(f"{image.dir}/etc/pgbouncer/pgbouncer.ini",
                               "[databases]\n[pgbouncer]\nlisten_addr =\nauth_type = any\n")
    args = [arg.format(dir=image.dir, file=file, user=image.account.name) for arg in args]
    done = image.run(*args, "--check", **EDOBURU)
    assert (done.returncode, done.stdout) == \
        (0, f"{file}: the configuration is good: 0 databases, 0 users\n"), done.stderr
    assert os.listdir(f"{image.dir}/tmp") == []


def test_nothing_at_all(image):
    done = image.run()
    assert done.returncode == 1 and "pgbouncer" in done.stderr


def test_another_command(image):
    here = subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, check=True)
    done = image.run("sh", "-c", "echo $DB_HOST; umask", **EDOBURU)
    assert done.stdout == "db\n" + here.stdout


def test_it_runs_and_ends(image, postgres):
    """As the only process, so that signals reach it, and with the name that operators look for."""
    port = free_port()
    process = image.start("pgbouncer", DB_HOST="127.0.0.1", DB_PORT=postgres.port, AUTH_TYPE="trust",
                          DB_USER="alice", DB_PASSWORD="alice secret", LISTEN_PORT=port,
                          LISTEN_ADDR="127.0.0.1", PGWEIR_SET_default_pool_size="3")
    with contextlib.ExitStack() as stack:
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.enter_context(process.stderr)
        stack.enter_context(process.stdout)
        wait_until(lambda: "process up" in process.stderr.readline(), what="the start")
        with psycopg.connect(host="127.0.0.1", port=port, user="alice", dbname="app",
                             connect_timeout=30) as client:
            assert client.execute("SELECT current_database()").fetchone() == ("app",)
        with open(f"/proc/{process.pid}/comm", encoding="utf-8") as file:
            assert file.read() == "pgbouncer\n"
        process.send_signal(signal.SIGTERM)
        assert wait_exit(process, 30) == 0
