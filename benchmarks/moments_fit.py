"""Fits the linear maps from what stands before a stage of the generator to the moments of its norms (GPU, torch).

    WEIGHTS=… VOICES=… OUT=… NTRAIN=80000 BATCH=96 LIMIT=300 python fit.py

Variant C: stage 0 runs whole, the last stage's moments are predicted from its inputs (result0, source1, addend1).
Variant B: both stages' moments are predicted from the inputs of stage 0 (addend0, source0, source1).
Writes OUT/moments_C.npz, OUT/moments_B.npz (centre, scale, inwards, outwards, offset, spread) and OUT/fit.json.
"""
import json, os, sys, time
from functools import cached_property
from pathlib import Path
import numpy as np, torch, torch.nn.functional as F
sys.path.insert(0, ".")
from benchmarks import corpus
from kokoro_server.engine import vocab
from kokoro_server.engine.model import reference
from kokoro_server.engine.model.kokoro import BatchedKokoro, TokenBatch, HALF_STYLE
from kokoro_server.engine.model.layers import InstanceNorm, Conv, EPSILON
from kokoro_server.engine.model.ops import Ops
from kokoro_server.voices import VoiceBook
DEV = torch.device(os.environ.get("DEV", "cuda")); env = lambda k, d: type(d)(os.environ.get(k, d))
NTRAIN, BATCH, LIMIT = env("NTRAIN", 80000), env("BATCH", 96), env("LIMIT", 300.0)
RANKS = [int(r) for r in env("RANKS", "64,128,256,512").split(",")]
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
started = time.time(); FLOOR = 1e-4
book = VoiceBook(Path(os.environ["VOICES"])); voices = sorted(p.stem for p in Path(os.environ["VOICES"]).glob("*_*"))
S = {"mode": None, "seen": [], "given": None, "k": 0}; held = {}

class Norm(InstanceNorm):
    @cached_property
    def _statistics(self):
        if S["mode"] == "given":
            g = S["given"][S["k"]]; S["k"] += 1
            if g is not None: return self.x - g[0], torch.rsqrt(g[1] + EPSILON)
        mean = self.lengths.mean(self.x); centred = self.x - mean; var = self.lengths.mean(centred.square())
        if S["mode"] == "record": S["seen"].append((mean, var))
        return centred, torch.rsqrt(var + EPSILON)
class Research(Ops):
    instance_norm = Norm
    def conv(self, module, placement, gain=None): return Conv(module, placement, gain, Norm)
with torch.no_grad():
    model = BatchedKokoro(reference.load(Path(os.environ["WEIGHTS"])) if "WEIGHTS" in os.environ else reference.blank(), DEV, ops=Research())
gen = model.decoder.generator
class Tap:
    def __call__(self, x, f0, styles, noise, lengths):
        held.update(x=x, f0=f0, styles=styles, noise=noise, lengths=lengths); S.update(mode="record", seen=[], k=0)
        out = gen(x, f0, styles, noise, lengths); S["mode"] = None
        return out
for number, stage in enumerate(gen.stages):   # what a stage is given: its source, its addend, and the signal before it
    conv, up = stage.source_conv, stage.upsample
    def tapped_conv(spectrum, lengths, conv=conv, number=number):
        y = conv(spectrum, lengths); held[f"source{number}"], held[f"l{number}"] = y, lengths
        return y
    class TappedUp:
        def __init__(self, up, number): self.up, self.number, self.stride = up, number, up.stride
        def __call__(self, x, base, extra, lengths):
            before = base.clone(); y = self.up(x, base, extra, lengths)
            held[f"addend{self.number}"], held[f"before{self.number}"] = y - before, x
            return y
    stage.source_conv, stage.upsample = tapped_conv, TappedUp(up, number)
model.decoder.generator = Tap()

def batch(pairs, speeds=None):
    toks = [vocab.tokenize(p) for p, _ in pairs]; n = [len(t)+2 for t in toks]; T = torch.zeros(len(pairs), max(n), dtype=torch.long)
    for i, t in enumerate(toks): T[i, 1:1+len(t)] = torch.tensor(t)
    style = torch.tensor(np.stack([np.asarray(book.style(v, len(t))).reshape(-1) for (_, v), t in zip(pairs, toks)]))
    return TokenBatch(T.to(DEV), tuple(n), style, torch.ones(len(pairs)) if speeds is None else torch.tensor(speeds, dtype=torch.float32))
@torch.no_grad()
def whole(pairs, seed=1, speeds=None):
    f = model.align(batch(pairs, speeds)); p = model.prosody(f)
    noise = torch.randn(len(pairs), f.lengths.size*600, generator=torch.Generator(DEV).manual_seed(seed), device=DEV)
    return model.audio(f, p, noise), f
def averages(x, m, n):
    z = torch.maximum(x, 0.1*x); d = (x[:, 1:]-x[:, :-1])*m[:, 1:]
    return [(x*m).sum(1)/n, (x*x*m).sum(1)/n, (z*m).sum(1)/n, (d*d).sum(1)/(n-1).clamp(min=1), ((x.abs()+1e-6).sqrt()*m).sum(1)/n]
def two(x, m, n):
    mean = (x*m).sum(1)/n; var = (((x-mean[:, None])*m)**2).sum(1)/n
    return [mean, torch.log(var+FLOOR)]
@torch.no_grad()
def features(f):
    l0, l1 = held["l0"], held["l1"]; M = {0: l0.mask.float()[..., None], 1: l1.mask.float()[..., None]}; n = {k: m.sum(1) for k, m in M.items()}
    style = f.style[:, :HALF_STYLE]
    c = [*averages(held["before1"], M[0], n[0]), *two(held["source1"], M[1], n[1]), *two(held["addend1"], M[1], n[1]), style]
    b = [*averages(held["addend0"], M[0], n[0]), *two(held["addend0"], M[0], n[0]), *averages(held["source0"], M[0], n[0]), *two(held["source0"], M[0], n[0]), *two(held["source1"], M[1], n[1]), style]
    return torch.cat(c, 1), torch.cat(b, 1)
def targets(): return torch.cat([torch.cat([m[:, 0], torch.log(v[:, 0]+FLOOR)], 1) for m, v in S["seen"]], 1)
rng = np.random.default_rng(0); sents = [s["phonemes"] for s in corpus.sentences()]; test_s, train_s = sents[:56], sents[56:]
shorts = [x+"." for x in ("ˌOkˈA", "hˈA", "wˈɜɹld", "səbmˈɪt bˈʌtᵊn", "hˈɛlp", "jˈɛs", "nˈO", "sˈɛtɪŋz", "θˈɪŋk", "hˈʊ")]
if os.environ.get("QUICK"): test_s, shorts, voices, train_s = test_s[:1], shorts[:1], voices[:2], [s[:20] for s in train_s[:20]]
def fragment():
    w = train_s[rng.integers(len(train_s))].split(" "); r = rng.random()
    if r >= 0.3:
        n = int(rng.integers(1, len(w)+1)) if r < 0.75 else int(rng.integers(1, min(3, len(w))+1)); at = int(rng.integers(len(w)-n+1)); w = w[at:at+n]
    t = " ".join(w).strip() or "hˈA"
    return t if t[-1] in ".!?," or rng.random() < 0.1 else t.rstrip(",;:— ") + "."
pairs_all = sorted(((fragment(), voices[rng.integers(len(voices))]) for _ in range(NTRAIN)), key=lambda t: len(t[0]))
order = list(range(0, len(pairs_all), BATCH)); rng.shuffle(order); fc, fb, tg = [], [], []; t0 = time.time()
for at in order:
    pairs = pairs_all[at:at+BATCH]; speeds = np.where(rng.random(len(pairs)) < 0.7, 1.0, rng.uniform(0.7, 1.4, len(pairs)))
    _, f = whole(pairs, int(rng.integers(1 << 30)), speeds); c, b = features(f); fc.append(c); fb.append(b); tg.append(targets())
    if time.time()-t0 > LIMIT: break
XC, XB, Y = torch.cat(fc), torch.cat(fb), torch.cat(tg); del fc, fb, tg
sizes = [m.shape[2] for m, _ in S["seen"]]; offs = np.cumsum([0]+[2*c for c in sizes]).tolist(); half = offs[22]
print("collected", XC.shape, XB.shape, Y.shape, round(time.time()-t0), flush=True)
dev = torch.cat([torch.cat([torch.exp(0.5*Y[:, o+c:o+2*c].mean(0)), torch.ones(c, device=DEV)]) for o, c in zip(offs, sizes)]); my = Y.mean(0); T = (Y-my)/dev
N = len(T); perm = torch.randperm(N, device=DEV); va, tr = perm[:max(1, N//20)], perm[max(1, N//20):]
def fit(X, T, name):
    mu, sd = X.mean(0), X.std(0)+1e-4; Z = ((X-mu)/sd).clamp(-8, 8); Zd = Z[tr].double(); A = Zd.T@Zd; Bm = Zd.T@T[tr].double(); best = None
    for lam in (1e-6, 1e-5, 1e-4, 1e-3):
        W = torch.linalg.solve(A + lam*len(tr)*torch.eye(len(A), device=DEV, dtype=torch.double), Bm); e = (Z[va]@W.float()-T[va]).square().mean().item()
        print(name, "ridge", lam, "val", e, "of", T[va].square().mean().item(), flush=True)
        if best is None or e < best[0]: best = (e, W)
    # reduced rank: the directions in which the predictions vary most
    W = best[1]; P = Zd@W; _, V = torch.linalg.eigh(P.T@P); V = V.flip(1); out = {}
    for r in RANKS:
        inw, outw = (W@V[:, :r]).float(), V[:, :r].T.float(); e = (Z[va]@inw@outw-T[va]).square().mean().item(); print(name, "rank", r, "val", e, flush=True); out[r] = (inw, outw)
    out[0] = (W.float(), None)
    return mu, sd, out
fits = {"C": fit(XC, T[:, half:], "C"), "B": fit(XB, T, "B")}
def predicted(kind, x, r):
    mu, sd, out = fits[kind]; z = ((x-mu)/sd).clamp(-8, 8); i, o = out[r]
    return z@i if o is None else z@i@o
def unpack(y, sz):
    o, got = 0, []
    for c in sz: got.append((y[:, None, o:o+c], (torch.exp(y[:, None, o+c:o+2*c])-FLOOR).clamp(min=0))); o += 2*c
    return got
@torch.no_grad()
def given(stats):
    S.update(mode="given", given=stats, k=0); z = gen(held["x"], held["f0"], held["styles"], held["noise"], held["lengths"]); S["mode"] = None
    return z
MEL = []
def logmel(y):
    n_fft, hop = 1024, 256
    if not MEL:
        fr = torch.linspace(0, 12000, n_fft//2+1); m = lambda h: 2595*torch.log10(1+h/700); pts = 700*(10**(torch.linspace(0, float(m(torch.tensor(12000.))), 82)/2595)-1)
        lo, c, hi = pts[:-2, None], pts[1:-1, None], pts[2:, None]; MEL.append(torch.clamp(torch.minimum((fr-lo)/(c-lo), (hi-fr)/(hi-c)), min=0).to(DEV))
    return 10*torch.log10(MEL[0] @ torch.stft(y, n_fft, hop, window=torch.hann_window(n_fft, device=DEV), return_complex=True).abs()**2 + 1e-6)
dist = lambda a, b: (logmel(a)-logmel(b)).abs().mean().item()
q = lambda v: {"mean": round(float(np.mean(v)), 3), "p50": round(float(np.median(v)), 3), "p99": round(float(np.percentile(v, 99)), 3), "max": round(float(np.max(v)), 3), "below 1 dB": round(float(np.mean(np.array(v) < 1)), 4)}
result = {"samples": N}
for label, group in (("sentences", [(test_s[i], v) for i in range(0, len(test_s), 3) for v in voices]), ("shorts", [(s, v) for s in shorts for v in voices])):
    res, per = {}, {}; group = sorted(group, key=lambda t: len(t[0]))
    for at in range(0, len(group), BATCH):
        pairs = group[at:at+BATCH]; y2, _ = whole(pairs, 2); y2 = y2.clone(); y, f = whole(pairs); n = f.lengths.counts; y = y.clone()
        c, b = features(f); own = [(m.clone(), v.clone()) for m, v in S["seen"]]; l0 = held["l0"]
        runs = {}
        for r in (0, *RANKS):
            runs[f"C{r}"] = own[:22] + unpack(predicted("C", c, r)*dev[half:]+my[half:], sizes[22:])
            runs[f"B{r}"] = unpack(predicted("B", b, r)*dev+my, sizes)
        bb = runs["B0"]; runs["B0 first stage only"] = bb[:22] + [None]*22
        for name, stats in runs.items():
            g = given(stats)
            for i in range(len(pairs)):
                k = y[i, :n[i]*600]; idx = (k.abs() > k.abs().max()*0.00562).nonzero(); sl = slice(max(0, int(idx[0])-1200), min(n[i]*600, int(idx[-1])+3600))
                d = dist(y[i, sl], g[i, sl]); res.setdefault(name, []).append(d); per.setdefault(name, {}).setdefault(pairs[i][1], []).append(d)
                if name == "C0": res.setdefault("two noises", []).append(dist(y[i, sl], y2[i, sl]))
    result[label] = {k: q(v) for k, v in res.items()} | {f"worst voices {k}": sorted(((round(float(np.mean(v)), 3), vo) for vo, v in per[k].items()), reverse=True)[:4] for k in ("C0", "B0")}
    for k, v in result[label].items(): print(label, k, v, flush=True)
out = Path(os.environ.get("OUT", "/tmp")); (out/"fit.json").write_text(json.dumps(result, indent=1))
# for each convolution of the product, in its order: noise 0..5, then the blocks; the blocks' first norms are one
def expand(a, sz):   # (2·c of each norm, flat) → by convolution
    o, per = 0, []
    for c in sz: per.append(a[..., o:o+2*c]); o += 2*c
    noise, x, rest = per[:6], per[6], per[7:22]
    return torch.cat([*noise, *[p for k in range(3) for p in (x, *rest[5*k:5*k+5])]], -1)
for kind, sz_list in (("C", [sizes[22:]]), ("B", [sizes[:22], sizes[22:]])):
    mu, sd, o = fits[kind]; r = 256 if 256 in o else max(o); inw, outw = o[r]
    if outw is None: continue
    cuts = [half] if kind == "C" else [0, half]
    for j, (sz, base) in enumerate(zip(sz_list, cuts)):
        lo = 0 if kind == "C" else base; width = sum(2*c for c in sz); sl = slice(lo, lo+width); gl = slice(base, base+width)
        np.savez(out/f"moments_{kind}{j}.npz", centre=mu.cpu().numpy(), scale=sd.cpu().numpy(), inwards=inw.half().cpu().numpy(), outwards=expand(outw[:, sl], sz).half().cpu().numpy(), offset=expand(my[gl][None], sz).view(24, 2, -1).cpu().numpy(), spread=expand(dev[gl][None], sz).view(24, 2, -1).cpu().numpy())
print("took", round(time.time()-started), flush=True)
