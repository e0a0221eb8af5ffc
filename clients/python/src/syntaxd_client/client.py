"""The client for ordinary code; ``aio`` has the same for asyncio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import grpc

from syntaxd_client import answers, errors, requests
from syntaxd_client.answers import Answer, Check, CompiledConstraint, Detokenized, Model, Tokens
from syntaxd_client.channel import (
    DEFAULT_ADDRESS,
    ChannelOptions,
    Pem,
    channel_credentials,
    channel_options,
)
from syntaxd_client.options import (
    CheckOptions,
    CompileOptions,
    DetokenizeOptions,
    ExtractOptions,
    GenerateOptions,
    JsonSchema,
    Metadata,
    Prompt,
    TokenizeOptions,
)
from syntaxd_client.pb.v1 import constraint_pb2, model_pb2
from syntaxd_client.pb.v1.constraint_pb2_grpc import ConstraintServiceStub
from syntaxd_client.pb.v1.generation_pb2 import GenerateRequest
from syntaxd_client.pb.v1.generation_pb2_grpc import GenerationServiceStub
from syntaxd_client.pb.v1.model_pb2_grpc import ModelServiceStub
from syntaxd_client.retries import DEFAULT_RETRY, Retry
from syntaxd_client.streams import Events, Stream

T = TypeVar("T")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class Client:
    """Calls one server. It may be used by several threads at once.

    Every method raises SyntaxdError (the tree stands in ``errors``) for whatever goes wrong in a
    call, and TypeError for options that do not exist or do not go together.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        ca: Pem | None = None,
        certificate: Pem | None = None,
        key: Pem | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        retry: Retry | None = DEFAULT_RETRY,
        options: ChannelOptions = (),
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> None:
        """Opens a channel to ``address`` (host:port).

        With TLS if there is a ``ca``, whose certificate the server must have, or for what that
        does not say ``credentials`` of gRPC. ``certificate`` and ``key`` are the client's own, for
        servers that ask for one. ``metadata`` goes with every call; ``timeout`` is that of calls
        which bring none, all attempts of one together; ``retry=None``: there is only one. Raises
        TypeError, and OSError for a file that cannot be read.
        """
        arguments = channel_options(options, retry)
        credentials = channel_credentials(credentials, ca, certificate, key)
        self._channel = (
            grpc.insecure_channel(address, arguments)
            if credentials is None
            else grpc.secure_channel(address, credentials, arguments)
        )
        self._generation = GenerationServiceStub(self._channel)
        self._constraint = ConstraintServiceStub(self._channel)
        self._model = ModelServiceStub(self._channel)
        self._settings = requests.CallSettings(timeout, tuple(metadata))

    def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Answer:
        """A text, under a constraint if there is one."""
        request = requests.generate(prompt, options)
        return answers.answer(self._call(self._generation.Generate, request, options))

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream[Answer]:
        """The same in pieces, as they are generated; its ``result()`` is the Answer."""
        request = requests.generate(prompt, options)
        return Stream(self._open(request, options), lambda answer: answer)

    @overload
    def extract(self, target: type[T], prompt: Prompt, **options: Unpack[ExtractOptions]) -> T: ...
    @overload
    def extract(
        self, target: JsonSchema, prompt: Prompt, **options: Unpack[ExtractOptions]
    ) -> Any: ...
    def extract(
        self, target: type[Any] | JsonSchema, prompt: Prompt, **options: Unpack[ExtractOptions]
    ) -> Any:
        """An instance of ``target``: a Pydantic model, a dataclass, or a type of ``mapping``.

        A JSON Schema gives plain Python objects. The model is told the schema unless
        ``describe_constraint=False``. Raises UnmappableTypeError for a type that JSON Schema
        cannot say, and AnswerError where the type refuses what the schema allows.
        """
        request, read = requests.extract(target, prompt, options)
        return read(answers.answer(self._call(self._generation.Generate, request, options)))

    @overload
    def stream_extract(
        self, target: type[T], prompt: Prompt, **options: Unpack[ExtractOptions]
    ) -> Stream[T]: ...
    @overload
    def stream_extract(
        self, target: JsonSchema, prompt: Prompt, **options: Unpack[ExtractOptions]
    ) -> Stream[Any]: ...
    def stream_extract(
        self, target: type[Any] | JsonSchema, prompt: Prompt, **options: Unpack[ExtractOptions]
    ) -> Stream[Any]:
        """As ``extract``, with the text on the way; ``result()`` is the instance."""
        request, read = requests.extract(target, prompt, options)
        return Stream(self._open(request, options), read)

    def compile(self, **options: Unpack[CompileOptions]) -> CompiledConstraint:
        """What the server makes of a constraint, and an id to name it by (``constraint_id=``)."""
        request = requests.compile_constraint(options)
        response = self._call(self._constraint.CompileConstraint, request, options)
        return answers.compiled(response.constraint)

    def check(self, text: str, **options: Unpack[CheckOptions]) -> Check:
        """Whether a text matches a constraint; a text that does not is no error."""
        request = requests.check_text(text, options)
        response = self._call(self._constraint.CheckText, request, options)
        return answers.record(Check, response)

    def get_constraint(
        self, constraint_id: str, *, timeout: float | None = None, metadata: Metadata = ()
    ) -> CompiledConstraint:
        """What ``compile`` said. Raises NotFoundError if the server knows it no more."""
        request = constraint_pb2.GetConstraintRequest(constraint_id=constraint_id)
        beside = {"timeout": timeout, "metadata": metadata}
        return answers.compiled(
            self._call(self._constraint.GetConstraint, request, beside).constraint
        )

    def delete_constraint(
        self, constraint_id: str, *, timeout: float | None = None, metadata: Metadata = ()
    ) -> None:
        """Forgets it. Raises NotFoundError if there is nothing to forget."""
        request = constraint_pb2.DeleteConstraintRequest(constraint_id=constraint_id)
        beside = {"timeout": timeout, "metadata": metadata}
        self._call(self._constraint.DeleteConstraint, request, beside)

    def tokenize(self, text: str, **options: Unpack[TokenizeOptions]) -> Tokens:
        """A text as the model's tokens."""
        request = requests.tokenize(text, options)
        response = self._call(self._model.Tokenize, request, options)
        return answers.record(Tokens, response)

    def detokenize(
        self, token_ids: Sequence[int], **options: Unpack[DetokenizeOptions]
    ) -> Detokenized:
        """Tokens as text: their bytes one after the other."""
        request = requests.detokenize(token_ids, options)
        response = self._call(self._model.Detokenize, request, options)
        return answers.record(Detokenized, response)

    def get_model(
        self, name: str = "", *, timeout: float | None = None, metadata: Metadata = ()
    ) -> Model:
        """A model and what can be asked of it; "" is the server's. Raises NotFoundError."""
        request = model_pb2.GetModelRequest(name=name)
        beside = {"timeout": timeout, "metadata": metadata}
        return answers.model(self._call(self._model.GetModel, request, beside).model)

    def list_models(self, *, timeout: float | None = None, metadata: Metadata = ()) -> list[Model]:
        """All models, over all pages; ``timeout`` is for each page."""
        found: list[Model] = []
        request = model_pb2.ListModelsRequest()
        beside = {"timeout": timeout, "metadata": metadata}
        while True:
            page = self._call(self._model.ListModels, request, beside)
            found += map(answers.model, page.models)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def close(self) -> None:
        """Closes the channel; calls still running are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(
        self,
        method: grpc.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        options: Mapping[str, Any],
    ) -> _Response:
        beside = requests.settings(options, self._settings)
        try:
            return method(request, timeout=beside.timeout, metadata=beside.metadata)
        except grpc.RpcError as error:
            raise errors.from_call(error) from error

    def _open(self, request: GenerateRequest, options: Mapping[str, Any]) -> Events:
        beside = requests.settings(options, self._settings)
        return self._generation.GenerateStream(
            request, timeout=beside.timeout, metadata=beside.metadata
        )
