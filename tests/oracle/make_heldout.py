"""Held-out pictures with questions for the draft head's acceptance: OUT/prompts.json and OUT/NNN_{a,b}.png.
usage: make_heldout.py OUT [SEED ONE TWO]: ONE prompts of one picture and TWO of two, drawn as tinyvlm/evaluate.py draws its own
(20261129 200 60 gives exactly its picture prompts). Without numbers: the set of tests/data/heldout.tar.xz."""
import json, os, random, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tinyvlm"))
import data as D

out = sys.argv[1]
seed, one, two = (int(x) for x in sys.argv[2:5]) if len(sys.argv) > 2 else (20270101, 80, 24)
os.makedirs(out, exist_ok=True)
rng = random.Random(seed)
prompts = []


def add(scenes, task, question, answer):
    names = []
    for scene, letter in zip(scenes, "ab"):
        names.append(f"{len(prompts):03d}_{letter}.png")
        D.render(scene).save(os.path.join(out, names[-1]), optimize=True)
    prompts.append(dict(images=names, task=task, question=question, answer=answer))


for _ in range(one):
    scene = D.make_scene(rng)
    add([scene], *D.qa_one(rng, scene))
for _ in range(two):
    scenes = [D.make_scene(rng), D.make_scene(rng)]
    add(scenes, *D.qa_two(rng, *scenes))
with open(os.path.join(out, "prompts.json"), "w") as f:
    json.dump(prompts, f, indent=1)
