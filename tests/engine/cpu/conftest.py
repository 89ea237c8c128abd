"""The kernels that this processor can run."""

from __future__ import annotations

import pytest

from kokoro_server.engine.cpu.instructions import Instructions, instructions

WITH_AVX512_VNNI = [Instructions.AVX_VNNI, Instructions.AVX512_BW, Instructions.AVX2]

# One with the wider vectors has the narrower ones too, and one with the newer instructions those before them; but one
# with AVX512-VNNI may lack AVX-VNNI's own form of the instruction, for which LLVM then takes the other.
ALSO = {
    Instructions.AMX_INT8: [Instructions.AVX512_VNNI, *WITH_AVX512_VNNI],
    Instructions.ARM_I8MM: [Instructions.ARM_DOTPROD],
    Instructions.AVX512_VNNI: WITH_AVX512_VNNI,
    Instructions.AVX_VNNI: [Instructions.AVX2],
    Instructions.AVX512_BW: [Instructions.AVX2],
}
RUNNABLE = [which for which in (instructions(), *ALSO.get(instructions(), [])) if which.has_kernels]


@pytest.fixture(scope="session", params=RUNNABLE, ids=str)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    from kokoro_server.engine.cpu.fused import kernels

    return kernels.compile_all(request.param, tmp_path_factory.mktemp("kernels"))
