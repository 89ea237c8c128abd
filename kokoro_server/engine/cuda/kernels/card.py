"""The properties of a GPU that decide which kernels run on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

AMPERE, HOPPER = (8, 0), (9, 0)
DEFAULT_SHARED = 48 * 1024  # bytes: every card has these


@dataclass(frozen=True, slots=True)
class Card:
    capability: tuple[int, int]
    processors: int  # multiprocessors
    shared_memory: int  # bytes that one program may use

    @classmethod
    def of(cls, device: torch.device) -> Card:
        properties = torch.cuda.get_device_properties(device)
        shared = getattr(properties, "shared_memory_per_block_optin", DEFAULT_SHARED)
        return cls(torch.cuda.get_device_capability(device), properties.multi_processor_count, shared)

    @property
    def has_descriptors(self) -> bool:
        """Whether the hardware has tensor descriptors."""
        return self.capability >= HOPPER

    @property
    def has_halo_products(self) -> bool:
        """Whether it has the products of `halo_conv.cu`, which later cards have not."""
        return self.capability == HOPPER

    @property
    def has_ampere_products(self) -> bool:
        """Whether it has the tensor cores and asynchronous copies that larger products in Triton need."""
        return self.capability >= AMPERE
