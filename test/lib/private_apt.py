# SPDX-License-Identifier: ISC
"""apt with sources of its own, which leaves the system's lists as they are."""

import pathlib


def options(folder, *sources):
    """For apt-get and apt-cache: they know these sources alone and nothing that is installed, and write
    below this folder.
    """
    for name in ("state/lists/partial", "cache/archives/partial"):
        pathlib.Path(folder, name).mkdir(parents=True, exist_ok=True)
    pathlib.Path(folder, "sources.list").write_text("".join(f"{source}\n" for source in sources))
    told = (f"Dir::State={folder}/state", f"Dir::Cache={folder}/cache",
            f"Dir::Etc::sourcelist={folder}/sources.list", "Dir::Etc::sourceparts=-",
            "Dir::State::status=/dev/null", "APT::Sandbox::User=", "Acquire::Languages=none")
    return [word for option in told for word in ("-o", option)]
