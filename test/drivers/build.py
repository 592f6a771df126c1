# SPDX-License-Identifier: ISC
"""How each driver's program is fetched, built and called.

All downloads and what is built from them stay in out/drivers. Versions are those of the lock
file (or manifest) in the driver's folder.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "out" / "drivers"
BUILD_LIMIT_S = 900
PYTHON = "/usr/bin/python3"
GO_ENVIRONMENT = (("GOPATH", f"{OUT}/go"), ("GOCACHE", f"{OUT}/go-build"),
                  ("GOFLAGS", "-modcacherw -mod=readonly"))
JAVA_TOOLS = ("java", "javac", "mvn")
JAVA_RUN = ("java", "-cp", "jars/*:classes", "Main")
SESSION = "parameters custom zone role temporary held lock sequence hidden reset"


@dataclasses.dataclass(frozen=True)
class Driver:
    """`files` are copied from the folder to the place of the build; `run` is called there.

    So is `shared`, which other drivers need too: a path below this folder.
    """

    name: str
    tools: tuple
    files: tuple
    builds: tuple
    run: tuple
    variants: tuple = ("default",)
    scenarios: str = "simple prepared rollback recovery copy batch cursor cancel notices"
    environment: tuple = ()
    shared: tuple = ("session.txt",)
    session: str = "listen " + SESSION  # the scenarios of what they keep in the session
    failover: tuple = ()  # the program for test/failover; none: there is none
    folder: str = ""  # with the files; by default the name

    @property
    def place(self):
        return OUT / self.name


def npm(name, **more):
    return Driver(name, ("node", "npm"), ("package.json", "package-lock.json", "main.js",
                                           "failover-main.js"),
                  (("npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund",
                    f"--cache={OUT}/npm"),), ("node", "main.js"),
                  shared=("session.txt", "node/common.js", "node/failover.js"),
                  failover=("node", "failover-main.js"), **more)


def python(name, module, failover="", **more):
    return Driver(name, (PYTHON,), ("harness.py", f"{module}.py",
                                    *(("failover.py", f"{failover}.py") if failover else ())), (),
                  (PYTHON, f"{module}.py"), folder="python",
                  failover=(PYTHON, f"{failover}.py") if failover else (), **more)


def framework(name, tools, files, builds, run, session, **more):
    """What it keeps in the session comes by itself: there is no plain run."""
    return Driver(name, tools, files, builds, run, scenarios="", session=session, **more)


def framework_python(name, session, files=(), **more):
    return framework(name, (PYTHON,), ("requirements.txt", "main.py", *files), (
        (PYTHON, "-m", "venv", "venv"),
        ("venv/bin/pip", "install", "-q", "--disable-pip-version-check", f"--cache-dir={OUT}/pip",
         "-r", "requirements.txt")),
        ("venv/bin/python", "main.py"), session, shared=("python/harness.py",), **more)


def java_builds(*sources):
    return (("mvn", "-B", "-q", f"-Dmaven.repo.local={OUT}/m2", "-DoutputDirectory=jars",
             "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"),
            ("javac", "-cp", "jars/*", "-d", "classes", *sources))


DRIVERS = (
    python("psycopg", "with_psycopg", "failover_psycopg", variants=("0", "1"),
           scenarios=Driver.scenarios + " pipeline"),
    python("asyncpg", "with_asyncpg", "failover_asyncpg",
           session=Driver.session + " leave_clean"),
    python("pg8000", "with_pg8000", scenarios="simple prepared rollback recovery copy batch cursor notices"),
    Driver("pgjdbc", JAVA_TOOLS, ("pom.xml", "Main.java", "Failover.java"),
           java_builds("Main.java", "Failover.java"), JAVA_RUN,
           variants=("never", "always", "conservative"),
           failover=(*JAVA_RUN[:-1], "Failover")),
    Driver("pgx", ("go",), ("go.mod", "go.sum", "main.go", "writer.go"), (
        ("go", "build", "-o", "pgx", "."),), ("./pgx",), failover=("./pgx",),
        shared=("session.txt", "go/failover.go"),
        variants=("cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"),
        scenarios="simple prepared rollback recovery copy batch cancel notices",
        environment=GO_ENVIRONMENT),
    Driver("lib-pq", ("go",), ("go.mod", "go.sum", "main.go"), (
        ("go", "build", "-o", "lib-pq", "."),), (), scenarios="", session="",
        shared=("go/failover.go",), variants=("no", "yes"), failover=("./lib-pq",),
        environment=GO_ENVIRONMENT),
    npm("node-postgres", variants=("plain", "pipeline")),
    npm("postgres-js"),
    Driver("tokio-postgres", ("cargo",), ("Cargo.toml", "Cargo.lock", "src/main.rs",
                                         "src/bin/failover.rs"), (
        ("cargo", "build", "--quiet", "--locked"),), ("target/debug/tokio-postgres-test",),
           failover=("target/debug/failover",),
        environment=(("CARGO_HOME", f"{OUT}/cargo"), ("CARGO_TARGET_DIR", "target"))),
    framework_python(
        "django", "rows savepoints pieces zone tenant schema role lock temporary users",
        ("shop/__init__.py", "shop/models.py", "shop/migrations/__init__.py",
         "shop/migrations/0001_initial.py", "shop/migrations/0002_details.py")),
    framework_python(
        "sqlalchemy", "models savepoints pieces defaults tenant autocommit isolation lock",
        variants=("psycopg", "psycopg2")),
    python("workers", "with_workers", scenarios="",
           session="shared_jobs told_jobs requests failed_requests reloads"),
    framework("pdo", ("php",), ("main.php", "failover.php"), (), ("php", "main.php"),
              Driver.session + " last_insert_id doctrine", variants=("prepared", "emulated"),
              failover=("php", "failover.php")),
    framework("activerecord", ("ruby",),
              ("main.rb", "migrate/20260101000001_create_authors.rb",
               "migrate/20260101000002_index_books.rb"), (), ("ruby", "main.rb"),
              "rows savepoints variables tenant schema lock temporary listen",
              variants=("prepared", "plain")),
    framework("gorm", ("go",), ("go.mod", "go.sum", "main.go"), (("go", "build", "-o", "gorm", "."),),
              ("./gorm",), "rows savepoints pieces parameters connection lock",
              environment=GO_ENVIRONMENT),
    framework("hibernate", JAVA_TOOLS, ("pom.xml", "Main.java", "Models.java", "OlderDialect.java"),
              java_builds("Main.java", "Models.java", "OlderDialect.java"), JAVA_RUN,
              "rows versions identity several savepoints pieces tenant parameters isolation lock"
              " temporary", variants=("default", "older")),
)


def missing_tool(driver):
    return next((tool for tool in driver.tools if not shutil.which(tool)), None)


def build(driver):
    """Fetches and builds; what goes wrong is a RuntimeError with the tool's words."""
    source = HERE / (driver.folder or driver.name)
    for name in driver.files:
        (driver.place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, driver.place / name)
    for name in driver.shared:
        shutil.copy(HERE / name, driver.place)
    for command in driver.builds:
        done = subprocess.run(command, cwd=driver.place, text=True, timeout=BUILD_LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment_of(driver))
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-3000:]}")


def environment_of(driver, **more):
    return {**os.environ, **dict(driver.environment), **more}
