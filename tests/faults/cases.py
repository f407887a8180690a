"""The injections of the campaign: what strikes, where, and what must come of it."""
import dataclasses
import random

RECIPES = {"dp": (2, "dp=2"), "pp": (2, "pp=2,micro-batches=2"), "tp": (2, "tp=2"), "mixed": (4, "dp=2,tp=2")}
PLACES = ["start", "load", "forward", "backward", "collective", "update", "save", "write"]

CAUSES = {
    "kill": ["SIGKILL", "is gone"],
    "stop": ["hangs"],
    "hang": ["hangs"],
    "exit": ["exited with status", "is gone"],
    "exception": ["WEFT_FAULT asked for"],
    "full": ["File too large"],
    "disk": ["No space left on device"],
    "cut": ["hangs", "is gone", "failed", "cannot reach"],
}


@dataclasses.dataclass
class Case:
    kind: str                # of CAUSES, or "damage"
    where: str               # the place that is struck
    rank: int = 0
    recipe: str = "dp"
    step: int = 3
    mode: str = "weft"       # weft | restart | plain (no launcher) | netns (no launcher, two namespaces) | resume
    detail: str = ""         # of damage; size of a disk in checkpoints, of which the job writes four
    outside: bool = False    # the script sends the signal, at any moment

    def name(self):
        return f"{self.mode} {self.kind} {self.where} rank {self.rank} of {self.recipe}" + (
            f" ({self.detail})" if self.detail else "")


def step_of(where):
    return 4 if where in ("save", "write", "commit") else 3


def by_hook(kind, places, recipe, mode="weft"):
    ranks = RECIPES[recipe][0]
    return [Case(kind, where, rank, recipe, step_of(where), mode) for where in places for rank in range(ranks)]


def damages():
    cases = []
    for detail in ("cut short", "one bit", "missing", "empty", "header", "json"):
        for rank in range(2):
            for mode in ("resume", "strict"):
                cases.append(Case("damage", "load", rank, "pp", mode=mode, detail=detail))
    return cases


def full_campaign(seed):
    draw = random.Random(seed)
    cases = []
    for recipe in ("dp", "pp"):
        cases += by_hook("kill", PLACES, recipe)
        cases += by_hook("exception", PLACES, recipe)
        cases += [Case("kill", "commit", 0, recipe, 4), Case("exception", "commit", 0, recipe, 4)]
    for kind in ("kill", "exception"):
        cases += by_hook(kind, ["start", "forward", "backward", "collective", "save"], "mixed")
    cases += by_hook("stop", ["start", "load", "forward", "backward", "collective", "save"], "dp")
    cases += by_hook("stop", ["forward", "backward", "collective"], "pp")
    cases += by_hook("stop", ["forward", "collective"], "mixed")
    cases += by_hook("hang", ["start", "load", "forward", "backward", "collective", "save", "write"], "dp")
    cases += by_hook("hang", ["backward", "collective"], "tp")
    cases += by_hook("exit", ["start", "forward", "collective"], "tp")
    cases += by_hook("full", ["save", "write"], "pp") + by_hook("full", ["save", "write"], "tp")
    cases += [Case("full", "commit", 0, "dp", 4)]
    cases += [Case("disk", "save", 0, recipe, detail=size) for recipe in ("dp", "pp", "mixed")
              for size in ("1.5", "2.5", "3.5")]
    cases += damages()
    cases += [Case(kind, "any moment", draw.randrange(2), recipe, outside=True) for kind in ("kill", "stop")
              for recipe in ("dp", "pp", "tp") for _ in range(2)]
    for kind, places in (("kill", ["start", "load", "forward", "collective", "save"]), ("exception", ["forward", "save"]),
                         ("stop", ["backward", "collective"]), ("hang", ["forward"])):
        cases += by_hook(kind, places, "dp", "plain")
    for kind, places in (("kill", ["forward", "save", "write", "commit"]), ("stop", ["backward"]), ("hang", ["collective"]),
                         ("exception", ["update"])):
        cases += [c for c in by_hook(kind, places, "dp", "restart") if c.where != "commit" or c.rank == 0]
    cases += [Case("cut", where, rank, recipe, mode="netns") for where in ("start", "step", "save")
              for rank in range(2) for recipe in ("dp", "pp")]
    return cases


def short_campaign():
    return [Case("kill", "backward", 1, "dp", 3), Case("exception", "collective", 0, "pp", 3),
            Case("stop", "forward", 1, "dp", 3), Case("hang", "backward", 0, "dp", 3),
            Case("full", "save", 1, "pp", 4), Case("disk", "save", 0, "dp", detail="1.5"),
            Case("damage", "load", 1, "pp", mode="resume", detail="one bit"),
            Case("kill", "write", 0, "dp", 4, mode="restart"), Case("kill", "collective", 1, "dp", 3, mode="plain"),
            Case("cut", "step", 1, "dp", mode="netns"), Case("kill", "start", 0, "pp", 0)]
