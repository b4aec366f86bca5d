"""The former place of `cep_pipeline.compiled.native`, for kernels that are being written meanwhile."""

from cep_pipeline.compiled.native import NativeKernel

__all__ = ["NativeKernel"]
