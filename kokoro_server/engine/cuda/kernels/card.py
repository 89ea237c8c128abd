"""What a GPU has, as far as it decides which kernels run on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

AMPERE, HOPPER = (8, 0), (9, 0)
DEFAULT_SHARED = 48 * 1024  # bytes, of any card


@dataclass(frozen=True, slots=True)
class Card:
    capability: tuple[int, int]
    processors: int  # multiprocessors
    shared_memory: int  # bytes that one program may have, at most

    @classmethod
    def of(cls, device: torch.device) -> Card:
        properties = torch.cuda.get_device_properties(device)
        shared = getattr(properties, "shared_memory_per_block_optin", DEFAULT_SHARED)
        return cls(torch.cuda.get_device_capability(device), properties.multi_processor_count, shared)

    @property
    def has_descriptors(self) -> bool:
        """Tensor descriptors in hardware."""
        return self.capability >= HOPPER

    @property
    def has_ampere_products(self) -> bool:
        """The tensor cores and asynchronous copies that larger products in Triton are written for."""
        return self.capability >= AMPERE
