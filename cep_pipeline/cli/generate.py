"""`cep generate`: seeded days of trades in the vendor's raw layout."""
