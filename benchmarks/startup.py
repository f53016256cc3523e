"""How long a cold start takes: `xl-editor --help` and a whole `xl-editor infill`, beside `import torch`.

python benchmarks/startup.py [--model yelp] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="yelp")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    cli = [sys.executable, "-m", "xl_editor.cli"]
    commands = {
        "import torch": [sys.executable, "-c", "import torch"],
        "xl-editor --help": [*cli, "--help"],
        "xl-editor infill": [*cli, "infill", "the food was [_] .", "--model", arguments.model],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(arguments.rounds + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
    for name, median in medians.items():
        print(f"{name:18} {median:6.2f} s  {median / medians['import torch']:5.2f} × import torch")


if __name__ == "__main__":
    main()
