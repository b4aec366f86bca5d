"""Generated days of a trading stream, in the raw layout in which a vendor delivers them."""

from __future__ import annotations

from cep_pipeline.generate.days import FILE_NAME, GeneratedDay, generate_days, is_trading_day
from cep_pipeline.generate.market import Market

__all__ = ["FILE_NAME", "GeneratedDay", "Market", "generate_days", "is_trading_day"]
