"""Compiled code: what statistics, planning and detection run at the speed of the processor, made once on a machine.

`object_code` makes LLVM IR into functions, and keeps what it made in a folder of the user. `native` does so with
kernels over arrays that are written in Python. Their code is part of the package (`shipped_code`); Numba compiles, in a
process of its own (`numba_ir`), only those whose source has changed since.
"""
