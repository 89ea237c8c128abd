// A convolution of a snake by Hopper's tensor cores: a signal crosses to the multiprocessor once, is normed and bent
// there, and stays in shared memory for all taps.
//
// A program makes tiles of BM steps and BN channels, one after the other. Half of it writes the steps that a tile's taps
// read, WIDE channels at a time, into shared memory; the other half multiplies them, each tap at a shifted address, and
// ends the tile: bias, residual, statistics. The first half works ahead of the second. Two programs share a
// multiprocessor, so that one multiplies while the other ends a tile.
//
// Compiled for each number of CHANNELS, which it reads and makes, and for each Number that products are added up in:
// float, of half precision, or int, of bytes.
//
// Shared memory holds lines of 128 bytes, whose eight parts are exchanged (part ^ line & 7); the tensor cores undo it.
// `halo_conv.py` lays the weights out in this way, and they are fetched as they lie.

typedef unsigned int u32;
typedef unsigned long long u64;

static constexpr int BM = 128, BN = 128;
static constexpr bool BYTES = !(Number)0.5f;
static constexpr int LINE = 128, WIDE = LINE / (BYTES ? 1 : 2);  // bytes, and channels
static constexpr int BLOCKS = CHANNELS / BN, CHUNKS = CHANNELS / WIDE, STRIDE = 2 * CHANNELS;  // bytes of a step
static constexpr int LINES = 178;                 // of a tile with its halo, at most
static constexpr int SIGNALS = 2, WEIGHTS = 4;    // buffers
static constexpr int SIGNAL = 23 * 1024, WEIGHT = BN * LINE;
static constexpr int WARPS = 4;                   // of each half
static constexpr int THREADS = 32 * WARPS;
static constexpr int AT_ONCE = 9;                 // loads of a thread that are under way together
// In shared memory: the weights, a signal with the biases and the barriers in the rest of its buffer, another one, the
// sums of all warps but the first, the weights' scales, the loudest of each warp, and the signals' scales.
static constexpr int SIGNALS_AT = WEIGHTS * WEIGHT, BIASES_AT = SIGNALS_AT + LINES * LINE, BARRIERS_AT = BIASES_AT + 4 * BN;
static constexpr int SUMS_AT = SIGNALS_AT + SIGNAL + LINES * LINE, SCALES_AT = SUMS_AT + (WARPS - 1) * 2 * 4 * BN;
static constexpr int LOUDEST_AT = SCALES_AT + 4 * BN, STEPS_AT = LOUDEST_AT + 4 * WARPS;
static_assert(BARRIERS_AT + 16 * (SIGNALS + WEIGHTS) <= SIGNALS_AT + SIGNAL, "the first signal's buffer is full");

__device__ void init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(barrier), "r"(parity)
        : "memory");
}

// Buffers that go round: the n-th use is of buffer n % NUMBER. `full` and `empty` say that it may be read, or written.
template <int NUMBER>
struct Ring {
    u32 at;
    __device__ u32 full(u32 n) const { return at + 8 * (n % NUMBER); }
    __device__ u32 empty(u32 n) const { return at + 8 * (NUMBER + n % NUMBER); }
    __device__ void init_all(u32 fillers, u32 readers) const {
        for (int i = 0; i < NUMBER; i++) init(full(i), fillers), init(empty(i), readers);
    }
    __device__ void wait_full(u32 n) const { wait(full(n), n / NUMBER & 1); }
    __device__ void wait_empty(u32 n) const {  // after its use before this one, if any
        if (n >= NUMBER) wait(empty(n), (n / NUMBER - 1) & 1);
    }
};

__device__ void fetch(u32 target, const char* source, u32 bytes, u32 barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Into the cache of all multiprocessors.
__device__ void prefetch(const char* source, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(source)), "r"(bytes) : "memory");
}

// Lines, eight of which are 1,024 bytes. `at` may be any line of a buffer that begins at a multiple of 1,024: the
// exchange goes by the address.
__device__ u64 operand(u32 at) { return (1ull << 62) | (64ull << 32) | (1ull << 16) | ((at & 0x3FFFF) >> 4); }

// total += 64 steps of a line's quarter by 128 lines of weights.
#define ALL(type) SIXTEEN(type, 0), SIXTEEN(type, 16), SIXTEEN(type, 32), SIXTEEN(type, 48)
#define SIXTEEN(type, i) FOUR(type, i), FOUR(type, i + 4), FOUR(type, i + 8), FOUR(type, i + 12)
#define FOUR(type, i) type(d[i]), type(d[i + 1]), type(d[i + 2]), type(d[i + 3])
#define OPERANDS                                                                       \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, "
__device__ void multiply(float (&d)[64], u64 steps, u64 weights) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " OPERANDS "1, 1, 1, 0, 0;" : ALL("+f") : "l"(steps),
                 "l"(weights));
}

__device__ void multiply(int (&d)[64], u64 steps, u64 weights) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " OPERANDS "1;" : ALL("+r") : "l"(steps), "l"(weights));
}

__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LATEST>
__device__ void end_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATEST) : "memory");
}

__device__ void unpack(u32 pair, float& low, float& high) {
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}" : "=f"(low), "=f"(high) : "r"(pair));
}

__device__ u32 pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ float reciprocal(float number) {
    float found;
    asm("rcp.approx.f32 %0, %1;" : "=f"(found) : "f"(number));
    return found;
}

__device__ u32 least(u32 one, u32 other) {
    u32 found;
    asm("min.f16x2 %0, %1, %2;" : "=r"(found) : "r"(one), "r"(other));
    return found;
}

__device__ u32 greatest(u32 one, u32 other) {
    u32 found;
    asm("max.f16x2 %0, %1, %2;" : "=r"(found) : "r"(one), "r"(other));
    return found;
}

// The last bytes of both.
__device__ u32 joined(float one, float other) { return __byte_perm(__float_as_uint(one), __float_as_uint(other), 0x0040); }

static constexpr float NEAREST = 12582912;  // a number that is added to it is rounded, and in its last bits

// z + sin² z, which never falls.
__device__ float snake(float z) {
    float turns = fmaf(z, 0.3183098861837907f, NEAREST) - NEAREST, wave;
    asm("sin.approx.f32 %0, %1;" : "=f"(wave) : "f"(fmaf(turns, -3.1415926535897932f, z)));
    return fmaf(wave, wave, z);
}

// The statistics of some steps of a channel.
struct Moments {
    float sum, spread;  // of the squares of their distances to the mean

    // With those of others: `number` and `numbers` are how many steps each has, `part` is that of `share`.
    __device__ void add(Moments other, float number, float numbers, float part) {
        float off = sum * numbers - other.sum * number;
        spread = spread + other.spread + off * off * part;
        sum += other.sum;
    }
};

__device__ float share(float number, float numbers) {
    float all = number * numbers * (number + numbers);
    return all > 0 ? reciprocal(all) : 0;
}

__device__ int within(int number, int most) { return min(max(number, 0), most); }

struct Inside {
    static constexpr bool value = true;
};
struct AtTheEdge {
    static constexpr bool value = false;
};

// `x`, `y`, `base`: (rows, time, CHANNELS), `base` may be none; `affine`: (rows, 2, CHANNELS), the norm's scale and shift;
// `w`: (BLOCKS, CHUNKS, taps, BN, WIDE); `parts`: (rows, tiles, 2, CHANNELS), the mean and the sum of squared deviations
// of each tile's steps. A row has lengths[row] * factor + extra steps. There are a multiple of BLOCKS programs. Bytes:
// `factors` (CHANNELS) are those of a signal, which then has a scale for each tile; weights count steps of `scales`
// (CHANNELS).
extern "C" __global__ void __launch_bounds__(2 * THREADS, 2)
    conv(const char* x, const float* affine, const char* w, char* y, const char* base, const float* bias,
         const float* factors, const float* scales, float* parts, const long long* lengths, int factor, int extra,
         int rows, int time, int taps, int dilation, int padding, int tiles) {
    extern __shared__ __align__(1024) char shared[];
    u32 weights_at = (u32)__cvta_generic_to_shared(shared), signals_at = weights_at + SIGNALS_AT;
    Ring<SIGNALS> signals{weights_at + BARRIERS_AT};
    Ring<WEIGHTS> weights{weights_at + BARRIERS_AT + 16 * SIGNALS};
    int warp = threadIdx.x / 32 % WARPS, lane = threadIdx.x % 32, block = blockIdx.x % BLOCKS;
    float* biases = (float*)(shared + BIASES_AT);
    if (threadIdx.x == 0) {
        signals.init_all(THREADS, WARPS);
        weights.init_all(1, WARPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    float *weight_scales = (float*)(shared + SCALES_AT), *loudest = (float*)(shared + LOUDEST_AT);
    float* steps = (float*)(shared + STEPS_AT);  // of the signal's tile, for each buffer
    if (threadIdx.x < BN) {
        biases[threadIdx.x] = bias[block * BN + threadIdx.x];
        if (BYTES) weight_scales[threadIdx.x] = scales[block * BN + threadIdx.x];
    }
    __syncthreads();
    int begin = blockIdx.x / BLOCKS, beside = gridDim.x / BLOCKS;  // its first tile, and how many come before its next
    u32 signal = 0;  // that is filled or read
    if (threadIdx.x >= THREADS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 64;");
        // A thread always reads and writes the same four channels of a line.
        constexpr int ABREAST = 4 * THREADS / WIDE;  // lines
        int thread = threadIdx.x - THREADS, channel = thread % (WIDE / 4) * 4, first = thread / (WIDE / 4);
        int lines = BM + 2 * padding;
#pragma unroll 1
        for (int i = begin; i < rows * tiles; i += beside) {
            int row = i / tiles, start = i % tiles * BM - padding, count = (int)lengths[row] * factor + extra;
            if (start + padding >= count) continue;
            const char* source = x + (long long)row * time * STRIDE + 2 * channel;
            const float* norm = affine + 2 * row * CHANNELS + channel;
            int next = i + beside;
            if (thread == 0 && next < rows * tiles) {
                int from = next % tiles * BM - padding, until = (int)lengths[next / tiles] * factor + extra;
                until = min(until, from + lines), from = max(from, 0);
                if (from < until) prefetch(x + ((long long)(next / tiles) * time + from) * STRIDE, (until - from) * STRIDE);
            }
            auto fill = [&](auto place) {
                constexpr bool INSIDE = decltype(place)::value;
                auto load = [&](uint2 (&pairs)[AT_ONCE], int chunk, int line) {
                    const char* from = source + 2 * WIDE * chunk;
                    if (INSIDE) from += (start + line) * STRIDE;
#pragma unroll
                    for (int j = 0; j < AT_ONCE; j++) {
                        int step = INSIDE ? ABREAST * j : within(start + line + ABREAST * j, count - 1);
                        pairs[j] = *(const uint2*)(from + step * STRIDE);
                    }
                };
                float step = 1;
                if (BYTES) {
                    float most = 1e-6f;
#pragma unroll 1
                    for (int chunk = 0; chunk < CHUNKS; chunk++) {
                        uint2 low, high;
#pragma unroll 1
                        for (int line = first; line < lines; line += ABREAST * AT_ONCE) {
                            uint2 pairs[AT_ONCE];
                            load(pairs, chunk, line);
                            if (line == first) low = high = pairs[0];
#pragma unroll
                            for (int j = 0; j < AT_ONCE; j++) {
                                if (line + ABREAST * j >= lines) pairs[j] = pairs[0];
                                low.x = least(low.x, pairs[j].x), low.y = least(low.y, pairs[j].y);
                                high.x = greatest(high.x, pairs[j].x), high.y = greatest(high.y, pairs[j].y);
                            }
                        }
                        float4 scale = *(const float4*)(norm + WIDE * chunk);
                        float4 shift = *(const float4*)(norm + CHANNELS + WIDE * chunk);
                        float4 weight = *(const float4*)(factors + channel + WIDE * chunk);
                        for (uint2 pairs : {low, high}) {
                            float a, b, c, d;
                            unpack(pairs.x, a, b);
                            unpack(pairs.y, c, d);
                            most = max(most, fabsf(snake(fmaf(a, scale.x, shift.x))) * weight.x);
                            most = max(most, fabsf(snake(fmaf(b, scale.y, shift.y))) * weight.y);
                            most = max(most, fabsf(snake(fmaf(c, scale.z, shift.z))) * weight.z);
                            most = max(most, fabsf(snake(fmaf(d, scale.w, shift.w))) * weight.w);
                        }
                    }
                    for (int other = 16; other; other /= 2) most = max(most, __shfl_xor_sync(~0u, most, other));
                    auto meet = [] { asm volatile("bar.sync 2, 128;" ::: "memory"); };
                    meet();  // all have read the loudest of the tile before
                    if (lane == 0) loudest[warp] = most;
                    meet();
                    for (int other = 0; other < WARPS; other++) most = max(most, loudest[other]);
                    step = most / 127;
                }
#pragma unroll 1
                for (int chunk = 0; chunk < CHUNKS; chunk++, signal++) {
                    char* target = shared + SIGNALS_AT + signal % SIGNALS * SIGNAL;
#pragma unroll 1
                    for (int line = first; line < lines; line += ABREAST * AT_ONCE) {
                        uint2 pairs[AT_ONCE];
                        load(pairs, chunk, line);
                        signals.wait_empty(signal);  // behind it, so that no load waits for the bending of another
                        float4 scale = *(const float4*)(norm + WIDE * chunk);
                        float4 shift = *(const float4*)(norm + CHANNELS + WIDE * chunk);
                        float4 weight = {};
                        if (BYTES) {
                            weight = *(const float4*)(factors + channel + WIDE * chunk);
                            float each = reciprocal(step);
                            weight.x *= each, weight.y *= each, weight.z *= each, weight.w *= each;
                        }
                        char* out = target + line * LINE;
                        int byte = LINE / WIDE * channel;
#pragma unroll
                        for (int j = 0; j < AT_ONCE; j++) {
                            int at = line + ABREAST * j;
                            bool is_sound = INSIDE || (u32)(start + at) < (u32)count;
                            float a, b, c, d;
                            unpack(pairs[j].x, a, b);
                            unpack(pairs[j].y, c, d);
                            a = snake(fmaf(a, scale.x, shift.x)), b = snake(fmaf(b, scale.y, shift.y));
                            c = snake(fmaf(c, scale.z, shift.z)), d = snake(fmaf(d, scale.w, shift.w));
                            char* to = out + ABREAST * j * LINE + (byte ^ (at & 7) * 16);
                            if (BYTES) {
                                u32 low = joined(fmaf(a, weight.x, NEAREST), fmaf(b, weight.y, NEAREST));
                                u32 high = joined(fmaf(c, weight.z, NEAREST), fmaf(d, weight.w, NEAREST));
                                if (at < lines) *(u32*)to = is_sound ? __byte_perm(low, high, 0x5410) : 0;
                            } else {
                                u32 low = pack(a, b), high = pack(c, d);
                                if (at < lines) *(uint2*)to = is_sound ? uint2{low, high} : uint2{};
                            }
                        }
                    }
                    if (BYTES && thread == 0) steps[signal % SIGNALS] = step;
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                    arrive(signals.full(signal));
                }
            };
            constexpr int BATCH = ABREAST * AT_ONCE;
            if (start >= 0 && start + (lines + BATCH - 1) / BATCH * BATCH <= count) {
                fill(Inside{});
            } else {
                fill(AtTheEdge{});
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
        int products = CHUNKS * taps, next = 0;  // weights to be fetched
        const char* source = w + (long long)block * products * WEIGHT;
        auto fetch_weight = [&](u32 n) {
            weights.wait_empty(n);
            fetch(weights_at + n % WEIGHTS * WEIGHT, source + next * WEIGHT, WEIGHT, weights.full(n));
            next = next + 1 == products ? 0 : next + 1;
        };
        auto release_weight = [&](u32 n) {  // its products have ended
            if (lane == 0) arrive(weights.empty(n));
            if (threadIdx.x == 0) fetch_weight(n + WEIGHTS);
            __syncwarp();
        };
        if (threadIdx.x == 0) {
            for (int n = 0; n < WEIGHTS; n++) fetch_weight(n);
        }
        __syncwarp();
        u32 weight = 0;
#pragma unroll 1
        for (int i = begin; i < rows * tiles; i += beside) {
            int row = i / tiles, start = i % tiles * BM, count = (int)lengths[row] * factor + extra;
            if (start >= count) continue;
            if (threadIdx.x == 0 && base) {
                prefetch(base + ((long long)row * time + start) * STRIDE, min(count - start, BM) * STRIDE);
            }
            Number total[2][64] = {};
            float step = 1;
#pragma unroll 1
            for (int chunk = 0; chunk < CHUNKS; chunk++, signal++) {
                signals.wait_full(signal);
                if (BYTES) step = steps[signal % SIGNALS];
#pragma unroll 1
                for (int tap = 0; tap < taps; tap++, weight++) {
                    weights.wait_full(weight);
                    u32 line = signals_at + signal % SIGNALS * SIGNAL + tap * dilation * LINE;
                    u32 lines = weights_at + weight % WEIGHTS * WEIGHT;
                    begin_products();
#pragma unroll
                    for (int k = 0; k < LINE; k += 32) {
                        multiply(total[0], operand(line + k), operand(lines + k));
                        multiply(total[1], operand(line + 64 * LINE + k), operand(lines + k));
                    }
                    commit_products();
                    end_products<2>();
                    if (chunk == 0 && tap < 2) continue;
                    release_weight(weight - 2);
                    if (tap == 1 && lane == 0) arrive(signals.empty(signal - 1));
                }
            }

            // A lane has eight neighbouring channels of each 32, of the steps lane / 4 and lane / 4 + 8 of each 16: the
            // columns of the weights are in an order that makes it so.
            int left = count - start, own = left - 16 * warp - lane / 4;
            long long at = ((long long)row * time + count - own) * STRIDE + 2 * (block * BN + 8 * (lane % 4));
            auto is_sound = [&](int part) { return own > 64 * (part / 2) + 8 * (part % 2); };
            auto place = [&](int group, int part) {
                return at + (64 * (part / 2) + 8 * (part % 2)) * STRIDE + 64 * group;
            };
            uint4 residuals[4] = {};
            auto load_residuals = [&](int group) {  // before they are wanted
#pragma unroll
                for (int part = 0; part < 4; part++) {
                    if (base && is_sound(part)) residuals[part] = *(const uint4*)(base + place(group, part));
                }
            };
            load_residuals(0);
            end_products<0>();
            release_weight(weight - 2);
            release_weight(weight - 1);
            if (lane == 0) arrive(signals.empty(signal - 1));
            float number = within((own + 7) / 8, 2) + within((own - 64 + 7) / 8, 2);  // of the lane's steps
            float each = reciprocal(max(number, 1.0f));
            float numbers[3], shares[3];  // of lanes that are merged
            float sum_of_steps = number;
#pragma unroll
            for (int j = 0; j < 3; j++) {
                numbers[j] = __shfl_xor_sync(~0u, sum_of_steps, 16 >> j);
                shares[j] = share(sum_of_steps, numbers[j]);
                sum_of_steps += numbers[j];
            }
            Moments found[4];
#pragma unroll
            for (int group = 0; group < 4; group++) {
                float offset[8], scale[8];
                for (int k = 0; k < 8; k += 4) {
                    *(float4*)(offset + k) = *(const float4*)(biases + 32 * group + 8 * (lane % 4) + k);
                    if (BYTES) *(float4*)(scale + k) = *(const float4*)(weight_scales + 32 * group + 8 * (lane % 4) + k);
                }
                float sound[4][8];
#pragma unroll
                for (int part = 0; part < 4; part++) {
                    uint4 out;
                    u32* from = (u32*)&residuals[part];
                    u32* to = (u32*)&out;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        int at = (4 * group + k) * 4 + part % 2 * 2;
                        float low = total[part / 2][at], high = total[part / 2][at + 1], a, b;
                        if (BYTES) low *= scale[2 * k] * step, high *= scale[2 * k + 1] * step;
                        unpack(from[k], a, b);
                        low += offset[2 * k] + a, high += offset[2 * k + 1] + b;
                        to[k] = pack(low, high);
                        sound[part][2 * k] = is_sound(part) ? low : 0;
                        sound[part][2 * k + 1] = is_sound(part) ? high : 0;
                    }
                    if (is_sound(part)) *(uint4*)(y + place(group, part)) = out;
                }
                if (group < 3) load_residuals(group + 1);
                Moments moments[8];
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    float sum = 0, spread = 0;
#pragma unroll
                    for (int part = 0; part < 4; part++) sum += sound[part][k];
                    float mean = sum * each;
#pragma unroll
                    for (int part = 0; part < 4; part++) {
                        float off = sound[part][k] - mean;
                        if (is_sound(part)) spread = fmaf(off, off, spread);
                    }
                    moments[k] = {sum, spread};
                }
                // Each time a lane merges half of its channels with another's, and leaves the other half to it.
                float mine = number;
#pragma unroll
                for (int j = 0; j < 3; j++) {
                    int half = 4 >> j, mask = 16 >> j;
                    bool upper = lane & mask;
#pragma unroll
                    for (int k = 0; k < half; k++) {
                        Moments kept = upper ? moments[k + half] : moments[k], given = upper ? moments[k] : moments[k + half];
                        given.sum = __shfl_xor_sync(~0u, given.sum, mask);
                        given.spread = __shfl_xor_sync(~0u, given.spread, mask);
                        kept.add(given, mine, numbers[j], shares[j]);
                        moments[k] = kept;
                    }
                    mine += numbers[j];
                }
                found[group] = moments[0];
            }
            int c = 8 * (lane % 4) + (lane / 16 % 2) * 4 + (lane / 8 % 2) * 2 + lane / 4 % 2;
            float* sums = (float*)(shared + SUMS_AT);  // (WARPS - 1, 2, BN)
            auto meet = [] { asm volatile("bar.sync 1, 128;" ::: "memory"); };
            meet();  // the first warp has read those of the tile before
            if (warp) {
                for (int group = 0; group < 4; group++) {
                    sums[(2 * warp - 2) * BN + 32 * group + c] = found[group].sum;
                    sums[(2 * warp - 1) * BN + 32 * group + c] = found[group].spread;
                }
            }
            meet();
            if (!warp) {
                float* out = parts + (long long)i * 2 * CHANNELS + block * BN + c;
                float so_far = sum_of_steps;
#pragma unroll
                for (int other = 1; other < WARPS; other++) {
                    float theirs = within(left - 16 * other, 16) + within(left - 64 - 16 * other, 16);
                    float part = share(so_far, theirs);
#pragma unroll
                    for (int group = 0; group < 4; group++) {
                        const float* from = sums + (2 * other - 2) * BN + 32 * group + c;
                        found[group].add({from[0], from[BN]}, so_far, theirs, part);
                    }
                    so_far += theirs;
                }
                each = reciprocal(so_far);
#pragma unroll
                for (int group = 0; group < 4; group++) {
                    out[32 * group] = found[group].sum * each;
                    out[CHANNELS + 32 * group] = found[group].spread;
                }
            }
        }
        if (threadIdx.x == 0) {
            for (int n = 0; n < WEIGHTS; n++) weights.wait_full(weight + n);  // nothing may arrive after the end
        }
    }
}
