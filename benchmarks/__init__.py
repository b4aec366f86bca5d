"""Benchmarks: workloads, peers that run beside us, and tables of ratios (`cep bench NAME`)."""
