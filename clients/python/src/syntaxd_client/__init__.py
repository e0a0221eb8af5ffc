"""Typed client of syntaxd: answers that match a JSON Schema, regex, choice or Python type.

::

    with syntaxd_client.Client("127.0.0.1:50051") as client:
        invoice = client.extract(Invoice, "Read this letter: ...", max_tokens=200)

``client`` and ``aio`` have the methods, ``options`` all that can be said by name, ``mapping`` the
Python types, ``answers`` what comes back, ``errors`` the tree of exceptions. ``pb.v1`` has the
generated messages, for what is not covered here.
"""

from syntaxd_client.aio import AsyncClient
from syntaxd_client.answers import (
    Answer,
    Candidate,
    Check,
    CompiledConstraint,
    Detokenized,
    Diagnostic,
    KeywordReport,
    Model,
    Stop,
    Timing,
    Token,
    Tokens,
    Usage,
)
from syntaxd_client.client import Client
from syntaxd_client.errors import (
    AlreadyExistsError,
    AnswerError,
    BudgetTooSmallError,
    CallCancelledError,
    ConstraintError,
    DeadlineExceededError,
    FieldViolation,
    InvalidRequestError,
    NotFoundError,
    ResourceExhaustedError,
    ServerError,
    SyntaxdError,
    UnauthenticatedError,
    UnavailableError,
    UnmappableTypeError,
)
from syntaxd_client.mapping import Keywords
from syntaxd_client.options import JsonSchema, Message, Prompt
from syntaxd_client.retries import Retry
from syntaxd_client.streams import AsyncStream, Stream

__all__ = [
    "AlreadyExistsError",
    "Answer",
    "AnswerError",
    "AsyncClient",
    "AsyncStream",
    "BudgetTooSmallError",
    "CallCancelledError",
    "Candidate",
    "Check",
    "Client",
    "CompiledConstraint",
    "ConstraintError",
    "DeadlineExceededError",
    "Detokenized",
    "Diagnostic",
    "FieldViolation",
    "InvalidRequestError",
    "JsonSchema",
    "KeywordReport",
    "Keywords",
    "Message",
    "Model",
    "NotFoundError",
    "Prompt",
    "ResourceExhaustedError",
    "Retry",
    "ServerError",
    "Stop",
    "Stream",
    "SyntaxdError",
    "Timing",
    "Token",
    "Tokens",
    "UnauthenticatedError",
    "UnavailableError",
    "UnmappableTypeError",
    "Usage",
]
