"""The typed pointers of `compiled.pointers`, where kernels over instances take them from."""

from __future__ import annotations

from cep_pipeline.compiled.pointers import float64_at, int8_at, int32_at, int64_at, uint8_at

__all__ = ["float64_at", "int8_at", "int32_at", "int64_at", "uint8_at"]
