"""A language model of counts: reads text, and predicts each byte from the two before it by one large softmax.

The logits are 65,536 contexts x 256 bytes, logarithms of smoothed counts. sluice.softmax turns them into
probabilities with a temperature and a mask, on a CUDA device where there is one, else on the CPU. The result
is checked against float64, timed beside numpy, scored on text that was not counted, and made to write some.
"""

import argparse
import importlib
import sysconfig
import time
from pathlib import Path

import numpy as np
import sluice
from tqdm import tqdm

CONTEXTS, BYTES = 65536, 256


def read(files):
    """All bytes, and where the last tenth begins: that part is held out."""
    files = files or sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"".join(path.read_bytes() for path in tqdm(files, "reading", unit=" files"))
    if len(text) < 1000:
        raise SystemExit(f"{len(text)} bytes are too few to learn from")
    return np.frombuffer(text, np.uint8).astype(np.int64), len(text) * 9 // 10


def pairs(text):
    """Each context, two bytes as one number, and the byte that follows it."""
    return text[:-2] * BYTES + text[1:-1], text[2:]


def count(text):
    """Logits [65536, 256]: ln of how often a byte followed two others, plus its share after the last one."""
    context, following = pairs(text)
    triples = np.bincount(context * BYTES + following, minlength=CONTEXTS * BYTES).reshape(-1, BYTES, BYTES)
    doubles = triples.sum(0) + 0.01  # [last byte, following]
    share = doubles / doubles.sum(1, keepdims=True)
    return np.log(triples + 2 * share).astype(np.float32).reshape(CONTEXTS, BYTES)


def best_device(wanted):
    """Its name, functions that bring an array there and back, and one that waits for it."""
    libraries = {
        "cupy": lambda m: (m.asarray, m.asnumpy, m.cuda.Device().synchronize),
        "torch": lambda m: (lambda a: m.as_tensor(a).cuda(), lambda a: a.cpu().numpy(), m.cuda.synchronize),
    }
    reason = None
    for library in libraries if wanted != "cpu" else ():
        try:
            sluice.Context("cuda")
            return f"CUDA through {library}", *libraries[library](importlib.import_module(library))
        except Exception as absent:  # no device, no such library, or one without CUDA: the next
            reason = absent
    if wanted == "cuda":
        raise SystemExit(f"no CUDA device to use: {reason}")
    return "CPU", np.asarray, np.asarray, lambda: None


def check(p, logits, mask, temperature):
    v = logits.astype(np.float64) / temperature + mask
    exact = np.exp(v - v.max(1, keepdims=True))
    error = np.abs(p - exact / exact.sum(1, keepdims=True)).max()
    print(f"largest difference from float64: {error:.1e}")
    if not error < 1e-6:
        raise SystemExit("that is too much")


def write(p, rng):
    """A sample of text, byte by byte."""
    text = bytearray(b"\nd")
    for _ in range(400):
        row = p[text[-2] * BYTES + text[-1]].astype(np.float64)
        text.append(rng.choice(BYTES, p=row / row.sum()))
    return text.decode(errors="replace").strip()


def numpy_softmax(x, mask, temperature, out):
    """The same in numpy, without a temporary array."""
    np.add(x, mask, out=out)
    out /= np.float32(temperature)
    out -= out.max(1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(1, keepdims=True)


def seconds(call, wait):
    """Median time of a call that has been made before."""
    clock = []
    for _ in range(11):
        call()
        wait()
        clock.append(time.perf_counter())
    return float(np.median(np.diff(clock)))


def plot(path, temperatures, perplexities, rates):
    pyplot = importlib.import_module("matplotlib.pyplot")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.plot(temperatures, perplexities, marker="o")
    left.set(xlabel="temperature", ylabel="perplexity", title="held-out text")
    right.barh(list(rates), list(rates.values()))
    right.set(xlabel="GB/s read and written", title="softmax of 65,536 x 256")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="text (default: Python's standard library)")
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1 the likely grows likelier")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--out", type=Path, default=Path("out/tiny_lm.png"), help="where the plot goes")
    args = parser.parse_args()

    text, end = read(args.files)
    logits = count(text[:end])
    print(f"{end:,} bytes counted into logits of {CONTEXTS:,} x {BYTES}, {len(text) - end:,} held out")

    # Bytes that the text never holds are excluded: a mask of -inf makes their probability 0.
    mask = np.where(np.bincount(text, minlength=BYTES) > 0, 0, -np.inf).astype(np.float32)
    device, send, back, wait = best_device(args.device)
    x, gone = send(logits), send(mask)  # [65536, 256], and [256] for every context
    y = sluice.softmax(x, mask=gone, temperature=args.temperature)
    p = back(y)
    check(p, logits, mask, args.temperature)

    context, following = pairs(text[end:])
    temperatures, perplexities = [*np.linspace(0.5, 1.5, 11), args.temperature], []
    for t in tqdm(temperatures, "scoring", unit=" temperatures"):
        log_p = back(sluice.softmax(x, mask=gone, temperature=float(t), log=True))
        perplexities.append(float(np.exp(-log_p[context, following].mean(dtype=np.float64))))
    print(f"perplexity of the held-out text: {perplexities.pop():.2f} at temperature {temperatures.pop():g}")
    print(f"\n{write(p, np.random.default_rng(0))}\n")

    room, rates = np.empty_like(logits), {}
    theirs = seconds(lambda: numpy_softmax(logits, mask, args.temperature, room), lambda: None)
    ours = seconds(lambda: sluice.softmax(x, mask=gone, temperature=args.temperature, out=y), wait)
    for name, taken in (("numpy", theirs), (f"sluice, {device}", ours)):
        rates[name] = 2 * logits.nbytes / taken / 1e9
        print(f"{name}: {taken * 1e3:.2f} ms, {rates[name]:.1f} GB/s read and written")
    print(f"sluice takes 1/{theirs / ours:.1f} of numpy's time")
    plot(args.out, temperatures, perplexities, rates)
    print(f"plot: {args.out}")


if __name__ == "__main__":
    main()
