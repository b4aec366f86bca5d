"""`python -m cep_pipeline.cli`: the `cep` command where its script is not on PATH."""

from cep_pipeline.cli import main

main()
