# SPDX-License-Identifier: ISC
"""What all actors of the attack share: the servers, the seed, the findings and the counts."""

import random
import threading


class Disturbed(Exception):
    """The connection ended for a reason that the attack itself has made."""


class Finding(Exception):
    """Something that must never happen."""


class Scene:
    """The pooler, PostgreSQL, and what the actors say of them.

    Every actor is a thread with a random generator of its own, made from the seed and its name, so
    that its choices can be repeated; what the scheduler makes of them cannot.
    """

    def __init__(self, weir, postgres, seed):
        self.weir = weir
        self.postgres = postgres
        self.seed = seed
        self.is_over = threading.Event()
        self.findings = []
        self.counts = {}
        self.is_session_mode = True  # of the database app2; changed with the lock held
        self.mode_lock = threading.Lock()
        self._lock = threading.Lock()

    def rng(self, name):
        return random.Random(f"{self.seed} {name}")

    def count(self, what, number=1):
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + number

    def find(self, name, finding):
        with self._lock:
            self.findings.append(f"{name}: {finding}")
        self.is_over.set()


class Actor(threading.Thread):
    """Takes one step after the other until the scene is over. A failure of a step is a finding."""

    pause = 0  # seconds between two steps

    def __init__(self, scene, name):
        super().__init__(name=name, daemon=True)
        self.scene = scene
        self.rng = scene.rng(name)

    def run(self):
        try:
            while not self.scene.is_over.is_set():
                self.step()
                if self.pause:
                    self.scene.is_over.wait(self.pause)
            self.leave()
        except Exception as failure:  # the main thread judges
            self.scene.find(self.name, f"{type(failure).__name__}: {failure}")

    def step(self):
        raise NotImplementedError

    def leave(self):
        """The end of the scene."""
