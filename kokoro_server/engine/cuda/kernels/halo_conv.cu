// A convolution by Hopper's tensor cores, whose taps are read from shared memory.
//
// A program makes BM steps of BN channels. It holds the steps that all taps of its tile read, 64 channels of half
// precision or 128 of bytes at a time, and shifts the address for each tap: a step crosses to the multiprocessor once,
// not once a tap. Two programs share a multiprocessor, so that one multiplies while the other begins or ends.
//
// What is fetched is contiguous: `halo_conv.py` lays weights and signals out as shared memory holds them, rows of 128
// bytes whose eight parts are exchanged (part ^ row & 7), which the tensor cores undo.

typedef unsigned int u32;
typedef unsigned long long u64;

static constexpr int BM = 128, BN = 128;
static constexpr int LINE = 128;                  // bytes: some channels of a step
static constexpr int LINES = 184;                 // of a tile with its halo, at most
static constexpr int SIGNALS = 2, WEIGHTS = 4;    // buffers
static constexpr int SIGNAL = LINES * LINE, WEIGHT = BN * LINE;
static constexpr int BARRIERS = SIGNALS * SIGNAL + WEIGHTS * WEIGHT;
static constexpr int WARPS = 4;

struct Barriers {
    u32 at;
    __device__ u32 signal_full(int i) const { return at + 8 * i; }
    __device__ u32 signal_empty(int i) const { return at + 8 * (SIGNALS + i); }
    __device__ u32 weight_full(int i) const { return at + 8 * (2 * SIGNALS + i); }
    __device__ u32 weight_empty(int i) const { return at + 8 * (2 * SIGNALS + WEIGHTS + i); }
};

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

__device__ void fetch(u32 target, const char* source, u32 bytes, u32 barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Rows of 128 bytes, exchanged as above; eight rows are 1,024 bytes. `at` may be any row of a buffer that begins at a
// multiple of 1,024: the exchange goes by the address.
__device__ u64 operand(u32 at) { return (1ull << 62) | (64ull << 32) | (1ull << 16) | ((at & 0x3FFFF) >> 4); }

// total += 64 steps of a line's quarter by 128 lines of weights: 16 channels of half precision, or 32 bytes.
#define ALL(type) SIXTEEN(type, 0), SIXTEEN(type, 16), SIXTEEN(type, 32), SIXTEEN(type, 48)
#define SIXTEEN(type, i) FOUR(type, i), FOUR(type, i + 4), FOUR(type, i + 8), FOUR(type, i + 12)
#define FOUR(type, i) type(d[i]), type(d[i + 1]), type(d[i + 2]), type(d[i + 3])
#define OPERANDS                                                                            \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "      \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "      \
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

// The sum over the lanes that hold other steps of the same channels.
__device__ float over_steps(float v) {
    for (int lane = 4; lane < 32; lane *= 2) v += __shfl_xor_sync(~0u, v, lane);
    return v;
}

// `w`: (blocks, chunks, taps, BN, LINE bytes); `y`, `base`: (rows, time, channels), `base` may be none; `parts`: (rows,
// tiles, 2, channels), the mean and the sum of squared deviations of each tile's steps. A row has lengths[row] * factor +
// extra steps.
//
// Compiled for each Number: float, or int for products of bytes. A tile reads `lines` of each chunk, its halo first. Of
// half precision, `x` is (rows, chunks, length, LINE bytes), where a tile's lines begin BM behind those of the one before
// it. Of bytes it is (rows, tiles, chunks, lines, LINE bytes); they count steps of steps[row, tile], and weights of
// scales[channel].
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    conv(const char* x, const char* w, char* y, const char* base, const float* bias, const float* scales, const float* steps,
         float* parts, const long long* lengths, int factor, int extra, int time, int chunks, int length, int lines,
         int taps, int dilation, int blocks, int tiles) {
    constexpr bool BYTES = !(Number)0.5f;
    extern __shared__ __align__(1024) char shared[];
    int tile = blockIdx.x / blocks, block = blockIdx.x % blocks, row = blockIdx.y;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int count = (int)lengths[row] * factor + extra;
    if (tile * BM >= count) return;
    u32 signals = (u32)__cvta_generic_to_shared(shared), weights = signals + SIGNALS * SIGNAL;
    Barriers barriers{signals + BARRIERS};
    float *offsets = (float*)(shared + BARRIERS + 128), *factors = offsets + BN;
    offsets[threadIdx.x] = bias[block * BN + threadIdx.x];
    if (BYTES) factors[threadIdx.x] = scales[block * BN + threadIdx.x] * steps[row * tiles + tile];
    if (threadIdx.x == 0) {
        for (int i = 0; i < SIGNALS; i++) init(barriers.signal_full(i), 1), init(barriers.signal_empty(i), WARPS);
        for (int i = 0; i < WEIGHTS; i++) init(barriers.weight_full(i), 1), init(barriers.weight_empty(i), WARPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    int products = chunks * taps;
    long long first = BYTES ? ((long long)row * tiles + tile) * chunks * length : (long long)row * chunks * length + tile * BM;
    const char* signal = x + first * LINE;
    const char* weight = w + (long long)block * products * WEIGHT;

    auto fetch_signal = [&](int chunk) {
        int buffer = chunk % SIGNALS;
        if (chunk >= SIGNALS) wait(barriers.signal_empty(buffer), (chunk / SIGNALS - 1) & 1);
        fetch(signals + buffer * SIGNAL, signal + (long long)chunk * length * LINE, lines * LINE, barriers.signal_full(buffer));
    };
    auto fetch_weight = [&](int i) {
        int buffer = i % WEIGHTS;
        if (i >= WEIGHTS) wait(barriers.weight_empty(buffer), (i / WEIGHTS - 1) & 1);
        fetch(weights + buffer * WEIGHT, weight + i * WEIGHT, WEIGHT, barriers.weight_full(buffer));
    };

    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int chunk = 0; chunk < min(SIGNALS, chunks); chunk++) fetch_signal(chunk);
#pragma unroll 1
        for (int i = 0; i < min(WEIGHTS, products); i++) fetch_weight(i);
    }
    __syncwarp();
    Number total[2][64] = {};
#pragma unroll 1
    for (int chunk = 0, i = 0; chunk < chunks; chunk++) {
        wait(barriers.signal_full(chunk % SIGNALS), chunk / SIGNALS & 1);
#pragma unroll 1
        for (int tap = 0; tap < taps; tap++, i++) {
            wait(barriers.weight_full(i % WEIGHTS), i / WEIGHTS & 1);
            u32 line = signals + chunk % SIGNALS * SIGNAL + tap * dilation * LINE;
            u32 weight = weights + i % WEIGHTS * WEIGHT;
            begin_products();
#pragma unroll
            for (int k = 0; k < LINE; k += 32) {
                multiply(total[0], operand(line + k), operand(weight + k));
                multiply(total[1], operand(line + 64 * LINE + k), operand(weight + k));
            }
            commit_products();
            end_products<1>();
            if (i == 0) continue;
            if (lane == 0) {  // the products before these have ended
                arrive(barriers.weight_empty((i - 1) % WEIGHTS));
                if (tap == 0) arrive(barriers.signal_empty((chunk - 1) % SIGNALS));
            }
            if (threadIdx.x == 0) {
                if (tap == 0 && chunk - 1 + SIGNALS < chunks) fetch_signal(chunk - 1 + SIGNALS);
                if (i - 1 + WEIGHTS < products) fetch_weight(i - 1 + WEIGHTS);
            }
            __syncwarp();
        }
    }

    // A lane has eight neighbouring channels of each 32, of the steps lane / 4 and lane / 4 + 8 of each 16: the columns
    // of the weights are in an order that makes it so.
    int channels = blocks * BN, channel = block * BN + 8 * (lane % 4), step = tile * BM + 16 * warp + lane / 4;
    auto place = [&](int group, int part) {
        return 2 * (((long long)row * time + step + 64 * (part / 2) + 8 * (part % 2)) * channels + channel + 32 * group);
    };
    auto is_sound = [&](int part) { return step + 64 * (part / 2) + 8 * (part % 2) < count; };
    uint4 residuals[2][4] = {};
    auto load_residuals = [&](int group) {  // before they are wanted
#pragma unroll
        for (int part = 0; part < 4; part++) {
            if (base && is_sound(part)) residuals[group % 2][part] = *(const uint4*)(base + place(group, part));
        }
    };
    load_residuals(0);
    end_products<0>();
    float* sums = (float*)shared;  // (2, WARPS, BN)
    float sound[2][64] = {};
    __syncthreads();  // all have read their operands
#pragma unroll
    for (int group = 0; group < 4; group++) {
        float offset[8], scale[8], sum[8] = {};
        if (group < 3) load_residuals(group + 1);
        for (int i = 0; i < 8; i += 4) {
            *(float4*)(offset + i) = *(const float4*)(offsets + 8 * (lane % 4) + 32 * group + i);
            if (BYTES) *(float4*)(scale + i) = *(const float4*)(factors + 8 * (lane % 4) + 32 * group + i);
        }
#pragma unroll
        for (int part = 0; part < 4; part++) {
            if (!is_sound(part)) continue;
            uint4 out;
            u32* from = (u32*)&residuals[group % 2][part];
            u32* to = (u32*)&out;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = (4 * group + i) * 4 + part % 2 * 2;
                float low = total[part / 2][at], high = total[part / 2][at + 1];
                if (BYTES) low *= scale[2 * i], high *= scale[2 * i + 1];
                low += offset[2 * i], high += offset[2 * i + 1];
                if (base) {
                    float a, b;
                    unpack(from[i], a, b);
                    low += a, high += b;
                }
                to[i] = pack(low, high);
                sum[2 * i] += low, sum[2 * i + 1] += high;
                sound[part / 2][at] = low, sound[part / 2][at + 1] = high;
            }
            *(uint4*)(y + place(group, part)) = out;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sum[i] = over_steps(sum[i]);
            if (lane < 4) sums[warp * BN + 32 * group + 8 * lane + i] = sum[i];
        }
    }
    __syncthreads();
    float number = min(count - tile * BM, BM);
#pragma unroll
    for (int group = 0; group < 4; group++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int c = 32 * group + 8 * (lane % 4) + i;
            float mean = (sums[c] + sums[BN + c] + sums[2 * BN + c] + sums[3 * BN + c]) / number, spread = 0;
#pragma unroll
            for (int part = 0; part < 4; part++) {
                float off = sound[part / 2][(4 * group + i / 2) * 4 + part % 2 * 2 + i % 2] - mean;
                if (is_sound(part)) spread += off * off;
            }
            spread = over_steps(spread);
            if (lane < 4) sums[(WARPS + warp) * BN + c] = spread;
        }
    }
    __syncthreads();
    int c = threadIdx.x;
    float* out = parts + ((long long)row * tiles + tile) * 2 * channels + block * BN + c;
    out[0] = (sums[c] + sums[BN + c] + sums[2 * BN + c] + sums[3 * BN + c]) / number;
    sums += WARPS * BN;
    out[channels] = sums[c] + sums[BN + c] + sums[2 * BN + c] + sums[3 * BN + c];
}
