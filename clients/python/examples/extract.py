"""Reads an invoice out of a letter into a dataclass: ``python extract.py [HOST:PORT]``."""

import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated

import syntaxd_client
from syntaxd_client import Keywords

LETTER = """Aarhus, 3 March 2026. Dear Nordic Wind, please pay 48,500 euros for the rotor blades
and 1,200 dollars for their transport by the end of the month. Maria Jensen, procurement"""


class Currency(Enum):
    EUR = "EUR"
    USD = "USD"


@dataclass
class Amount:
    value: Annotated[Decimal, Keywords(minimum=0, maximum=1_000_000, multipleOf=0.01)]
    currency: Currency


@dataclass
class Invoice:
    sender: Annotated[str, Keywords(minLength=1, maxLength=40)]
    written: date
    amounts: Annotated[list[Amount], Keywords(minItems=1, maxItems=3)]


def main(address: str) -> None:
    with syntaxd_client.Client(address, timeout=300) as client:
        try:
            invoice = client.extract(
                Invoice,
                f"Extract who sent this letter, when, and the amounts of money.\n\n{LETTER}",
                temperature=0,
                max_tokens=200,
                whitespace="single_space",  # as the default model learnt JSON
            )
        except syntaxd_client.SyntaxdError as error:
            sys.exit(str(error))
    print(f"{invoice.sender}, {invoice.written:%d.%m.%Y}")
    for amount in invoice.amounts:
        print(f"{amount.value:>10} {amount.currency.name}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051")
