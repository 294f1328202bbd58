"""The arena's ratings: how often intervals cover the truth, and how long a million votes take.

    python benchmarks/arena.py coverage [--simulations 1000] [--json]
    python benchmarks/arena.py adaptive [--simulations 200] [--json]
    python benchmarks/arena.py speed [--votes 1000000] [--json]
    python benchmarks/arena.py public FOLDER

`coverage` simulates photographs that favor some models more than others (so that votes on one photograph are not
independent), fits ratings with intervals of 95 %, and counts how often they contain the value that ever more
photographs lead to. `adaptive` simulates arenas that ask pairs adaptively, or evenly, until the widest interval between
neighbors is narrow enough, and counts votes, and how often intervals contain the truth at that moment. `speed` writes a
CSV of votes on 50 models, and reads and fits it in a process of its own. `public` prints the tables of docs/arena.md
from MMRB2 (`mmrb2-edit.jsonl`, `mmrb2-t2i.jsonl`: `id`, `prompt`, `model_a`, `model_b`, `chosen`, `ratings` of three
annotators, 1 to 6) and GenAI-Bench (`genai-bench-edit.jsonl`: `id`, `source_prompt`, `human_vote`, `judges`). Pairs
with images are in `alignment/pairs.py`.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from measuring import measure

from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.pairs import OutputNames, PairPool, collect_items
from beholder.arena.selection import AdaptiveSelection, choose_evenly, make_pool_votes
from beholder.arena.votes import Labels, VoteOutcome, Votes, read_votes
from beholder.cases.case import Case, CaseRow

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PHOTOGRAPHS = (30, 100, 300)
STRENGTHS = np.array([0.8, 0.4, 0.0, -0.4, -0.8])
BY_PHOTOGRAPH = 0.8  # standard deviation of a model's strength over photographs
POSITION, TIE = 0.3, -0.5
DRAWS = 1000
MODELS = 50
GOAL_S, GOAL_MB = 60, 2048


def simulate(photographs: int, rng: np.random.Generator) -> Votes:
    """Votes on photographs: each has one on every pair of the models, in a random order, and a strength of its own for
    each model. A fifth of the ties are both-bad."""
    size = len(STRENGTHS)
    one, other = np.triu_indices(size, 1)
    photo = np.repeat(np.arange(photographs), len(one))
    first, second = np.tile(one, photographs), np.tile(other, photographs)
    turned = rng.random(len(photo)) < 0.5
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    strengths = STRENGTHS + rng.normal(0, BY_PHOTOGRAPH, (photographs, size))
    half = (strengths[photo, first] - strengths[photo, second] + POSITION) / 2
    odds = np.exp(np.stack([half, -half, np.full(len(half), TIE)]))
    odds /= odds.sum(axis=0)
    drawn = rng.random(len(photo))
    outcome = np.where(drawn < odds[0], VoteOutcome.FIRST, VoteOutcome.SECOND)
    tied = drawn > odds[0] + odds[1]
    outcome[tied] = np.where(rng.random(int(tied.sum())) < 0.2, VoteOutcome.BOTH_BAD, VoteOutcome.TIE)
    names = tuple("abcde"[:size])
    photos = Labels(photo.astype(np.int32), tuple(map(str, range(photographs))))
    return Votes(
        names,
        first.astype(np.int32),
        second.astype(np.int32),
        outcome.astype(np.int8),
        group=photos,
        group_name="photograph",
    )


def fit_numbers(votes: Votes, draws: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Value, low and high of everything that the board gives an interval for."""
    board = fit_votes(votes, ArenaOptions(position=True, draw_count=draws, seed=seed))
    found = {f"rating {row.model}": row.rating for row in board.ratings}
    found |= {f"win rate {row.model}": row.win_rate for row in board.ratings}
    found |= {f"both bad {row.model}": row.both_bad_rate for row in board.ratings}
    for one, other in zip("abcd", "bcde", strict=True):
        found[f"difference {one}{other}"] = board.compare(one, other).difference
    assert board.position is not None
    found["position"] = board.position
    return {
        name: (
            number.value or 0.0,
            -np.inf if number.low is None else number.low,
            np.inf if number.high is None else number.high,
        )
        for name, number in found.items()
    }


def coverage(simulations: int) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(0)
    truth = {name: value for name, (value, _, _) in fit_numbers(simulate(200_000, rng), 2, 0).items()}
    rows: dict[str, dict[str, float]] = {}
    for photographs in PHOTOGRAPHS:
        covered: dict[str, list[bool]] = {}
        for number in range(simulations):
            for name, (_, low, high) in fit_numbers(simulate(photographs, rng), DRAWS, number).items():
                covered.setdefault(name.rpartition(" ")[0] or name, []).append(low <= truth[name] <= high)
        rows[str(photographs)] = {name: float(np.mean(hits)) for name, hits in covered.items()}
    return rows


SPREADS = {400.0: (200.0, 120.0, 80.0), 1000.0: (200.0, 120.0)}  # points from best to worst; widths to end at
ARENA_MODELS, ARENA_PHOTOGRAPHS, ARENA_DRAWS = 8, 150, 500
ARENA_BY_PHOTOGRAPH = 0.5


def make_pool() -> PairPool:
    """Pairs of the outputs of eight models for 150 photographs."""
    names = OutputNames(("output",))
    cases = [
        Case(f"{photo}/{model}", {"input": f"{photo}", "output": f"{photo}-{model}"}, {}, {"model": f"m{model}"})
        for photo in range(ARENA_PHOTOGRAPHS)
        for model in range(ARENA_MODELS)
    ]
    return PairPool(collect_items([CaseRow("", case, (), case.id) for case in cases], names).items, names)


def vote_on_all(pool: PairPool, strengths: Floats, rng: np.random.Generator) -> Ints:
    """What a judge would vote on every pair, if it were asked."""
    own = strengths + rng.normal(0, ARENA_BY_PHOTOGRAPH, (len(pool.items), len(strengths)))
    half = (own[pool.item, pool.first] - own[pool.item, pool.second]) / 2
    odds = np.exp(np.stack([half, -half, np.full(len(half), TIE)]))
    odds /= odds.sum(axis=0)
    drawn = rng.random(len(half))
    return np.where(drawn < odds[0], 0, np.where(drawn < odds[0] + odds[1], 1, 2))


def run_arena(pool: PairPool, answers: Ints, width: float, *, even: bool) -> dict[int, VoteOutcome]:
    """Ask in rounds until no interval between neighbors is wider; adaptively, or spread evenly by the same rule."""
    selection = AdaptiveSelection(pool, width, ARENA_DRAWS)
    votes: dict[int, VoteOutcome] = {}
    while (decision := selection.next_round(dict(votes))).pairs:
        asked = np.isin(np.arange(len(pool)), list(votes))
        chosen = choose_evenly(pool, len(decision.pairs), asked) if even else decision.pairs
        votes |= {int(at): VoteOutcome(int(answers[at])) for at in chosen}
    return votes


def compare_neighbors(pool: PairPool, votes: dict[int, VoteOutcome], draws: int) -> Floats:
    """Value, low and high of the difference between models that are neighbors in truth."""
    board = fit_votes(make_pool_votes(pool, votes), ArenaOptions(draw_count=draws))
    found = [board.compare(f"m{at}", f"m{at + 1}").difference for at in range(ARENA_MODELS - 1)]
    return np.array([[one.value, one.low or -np.inf, one.high or np.inf] for one in found], np.float64)


def adaptive(simulations: int) -> dict[str, dict[str, float]]:
    pool = make_pool()
    rows: dict[str, dict[str, float]] = {}
    for spread, widths in SPREADS.items():
        name = f"{spread:,.0f} points"
        strengths = np.linspace(spread / 2, -spread / 2, ARENA_MODELS) * np.log(10) / 400
        rng = np.random.default_rng(1)
        many = [compare_neighbors(pool, _all_votes(vote_on_all(pool, strengths, rng)), 2)[:, 0] for _ in range(100)]
        truth = np.mean(many, axis=0)
        every = [
            compare_neighbors(pool, _all_votes(vote_on_all(pool, strengths, rng)), 500) for _ in range(simulations)
        ]
        rows[f"{name}, all pairs"] = {"votes": len(pool), "coverage": _cover(every, truth)}
        for width in widths:
            for how in ("adaptive", "even"):
                counts, found = [], []
                for number in range(simulations):
                    answers = vote_on_all(pool, strengths, np.random.default_rng((number, 7)))
                    votes = run_arena(pool, answers, width, even=how == "even")
                    counts.append(len(votes))
                    found.append(compare_neighbors(pool, votes, 1000))
                values = np.array(found)[:, :, 0]
                rows[f"{name}, {width:.0f} wide, {how}"] = {
                    "votes": float(np.mean(counts)),
                    "all_asked": float(np.mean([count == len(pool) for count in counts])),
                    "coverage": _cover(found, truth),
                    "bias": float(np.mean(values - truth)),
                }
                print(name, width, how, rows[f"{name}, {width:.0f} wide, {how}"], file=sys.stderr, flush=True)
    return rows


def _all_votes(answers: Ints) -> dict[int, VoteOutcome]:
    return {at: VoteOutcome(int(vote)) for at, vote in enumerate(answers)}


def _cover(found: list[Floats], truth: Floats) -> float:
    return float(np.mean([(one[:, 1] <= truth) & (truth <= one[:, 2]) for one in found]))


def write_votes(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    strengths = rng.normal(0, 0.7, MODELS)
    first = rng.integers(0, MODELS, count)
    second = (first + rng.integers(1, MODELS, count)) % MODELS
    half = (strengths[first] - strengths[second]) / 2
    odds = np.exp(np.stack([half, -half, np.full(count, -0.3)]))
    drawn = rng.random(count) * odds.sum(axis=0)
    winner = np.where(drawn < odds[0], "model_a", np.where(drawn < odds[0] + odds[1], "model_b", "tie"))
    prompt = rng.integers(0, count // 20, count)
    with path.open("w") as file:
        file.write("model_a,model_b,winner,prompt\n")
        for a, b, won, of in zip(first, second, winner, prompt, strict=True):
            file.write(f"model-{a},model-{b},{won},prompt-{of}\n")


def fit_file(path: Path, position: bool) -> dict[str, float]:
    """Read and fit a file in this process; seconds and megabytes."""
    began = time.perf_counter()
    votes = read_votes(path)
    read = time.perf_counter()
    board = fit_votes(votes, ArenaOptions(position=position, draw_count=DRAWS))
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    return {
        "votes": board.votes,
        "groups": board.groups,
        "read_s": read - began,
        "fit_s": ended - read,
        "peak_mb": peak,
    }


def speed(count: int) -> dict[str, object]:
    """Read and fit a file of votes, each time in a process of its own."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.csv"
        write_votes(path, count)
        for name, flags in (("plain", []), ("position", ["--position"])):
            sample = measure([sys.executable, __file__, "fit", str(path), *flags])
            found[name] = json.loads(sample.out) if sample.code == 0 else sample.out
    return found


def read_annotators(path: Path) -> list[dict[str, str]]:
    """The votes of MMRB2's annotators. A rating of 4 to 6 is a vote for A, of 1 to 3 one for B: on every pair the
    majority of these is what the data call `chosen`, which is checked here."""
    rows = []
    for line in path.read_text("utf-8").splitlines():
        pair = json.loads(line)
        votes = ["model_a" if rating > 3 else "model_b" for rating in pair["ratings"]]
        assert (votes.count("model_a") * 2 > len(votes)) == (pair["chosen"] == "A"), pair["id"]
        rows += [
            {"case": pair["id"], "prompt": pair["prompt"], "judge": f"annotator {number}", "winner": vote}
            | {"model_a": pair["model_a"], "model_b": pair["model_b"]}
            for number, vote in enumerate(votes, start=1)
        ]
    return rows


def read_genai_bench(path: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The votes of six judges, and those of people; A is the left image, and shown first."""
    human = {"leftvote": "model_a", "rightvote": "model_b", "tievote": "tie", "bothbad_vote": "both_bad"}
    words = {"[[A>B]]": "model_a", "[[B>A]]": "model_b", "[[A=B=Good]]": "tie", "[[A=B=Bad]]": "both_bad"}
    judged, people = [], []
    for line in path.read_text("utf-8").splitlines():
        pair = json.loads(line)
        case = {"case": str(pair["id"]), "source": pair["source_prompt"]}
        people.append(case | {"winner": human[pair["human_vote"]]})
        for judge, said in pair["judges"].items():
            judged.append(case | {"judge": judge, "winner": words.get(said["vote"] or "", "")})
    return judged, people


def public(folder: Path) -> None:
    import beholder
    from beholder.reports.arena import agreement_rows, leaderboard_rows, leaderboard_sentences, leaderboard_title

    for name in ("mmrb2-edit", "mmrb2-t2i"):
        rows = read_annotators(folder / f"{name}.jsonl")
        board = beholder.fit_arena([row for row in rows if row["model_a"] != row["model_b"]])
        print(f"\n{name}: {leaderboard_title(board)}")
        for cells in (*leaderboard_rows(board), *([sentence] for sentence in leaderboard_sentences(board))):
            print(" | ".join(cells))
        print(*agreement_rows(beholder.agree_arena(rows)), sep="\n")
        between = [row for row in rows if row["model_a"] != row["model_b"]]
        print("of different models:", *agreement_rows(beholder.agree_arena(between)))
    judged, people = read_genai_bench(folder / "genai-bench-edit.jsonl")
    agreement = beholder.agree_arena(judged, people=people)
    print("\ngenai-bench-edit")
    for judge, cells in zip(agreement.judges, agreement_rows(agreement), strict=True):
        shares = f"first {judge.first_judge}, people {judge.first_people}, no vote {judge.unanswered}"
        print(" | ".join(cells), f"| decided {judge.decided} | {shares}")
        print("   ", judge.confusion)
    print(agreement.interval_note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "adaptive", "speed", "public", "fit"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--votes", type=int, default=1_000_000)
    parser.add_argument("--position", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.what == "fit":
        print(json.dumps(fit_file(given.file, given.position)))
        return
    if given.what == "public":
        public(given.file)
        return
    found: Mapping[str, object]
    if given.what == "speed":
        found = speed(given.votes)
    else:
        found = (coverage if given.what == "coverage" else adaptive)(given.simulations)
    if given.json:
        print(json.dumps(found))
        return
    for name, numbers in found.items():
        print(name, numbers)
    if given.what == "speed":
        print(f"goal: {GOAL_S} s and {GOAL_MB:,} MB")


if __name__ == "__main__":
    main()
