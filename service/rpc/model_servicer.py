"""ModelService: the models that are served (one) and their tokens."""

from __future__ import annotations

from typing_extensions import override

from service.engine.types import ModelInfo
from service.rpc.answering import Context, answering_errors
from service.rpc.convert.request import check_model_name
from service.rpc.pages import page
from service.rpc.pb.v1 import model_pb2, model_pb2_grpc
from service.rpc.tokens import Tokens


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """GetModel, ListModels, Tokenize and Detokenize."""

    def __init__(self, info: ModelInfo, model: model_pb2.Model, tokens: Tokens) -> None:
        """``model`` is ``info`` as callers read it."""
        self._info = info
        self._models = [model]
        self._tokens = tokens

    @override
    async def GetModel(
        self, request: model_pb2.GetModelRequest, context: Context
    ) -> model_pb2.GetModelResponse:
        async with answering_errors(context):
            check_model_name(request.name, self._info)
            return model_pb2.GetModelResponse(model=self._models[0])
        raise AssertionError("abort raises")

    @override
    async def ListModels(
        self, request: model_pb2.ListModelsRequest, context: Context
    ) -> model_pb2.ListModelsResponse:
        async with answering_errors(context):
            names = [each.name for each in self._models]
            found = page(names, request.page_size, request.page_token)
            return model_pb2.ListModelsResponse(
                models=self._models[found.start : found.end], next_page_token=found.next_token
            )
        raise AssertionError("abort raises")

    @override
    async def Tokenize(
        self, request: model_pb2.TokenizeRequest, context: Context
    ) -> model_pb2.TokenizeResponse:
        async with answering_errors(context):
            check_model_name(request.model, self._info)
            # As GenerateRequest.prompt is tokenised, unless told otherwise.
            special = not request.HasField("add_special_tokens") or request.add_special_tokens
            ids = await self._tokens.encode(request.text, add_special_tokens=special)
            spelled = self._tokens.spellings(ids) if request.token_bytes else []
            return model_pb2.TokenizeResponse(token_ids=ids, token_bytes=spelled)
        raise AssertionError("abort raises")

    @override
    async def Detokenize(
        self, request: model_pb2.DetokenizeRequest, context: Context
    ) -> model_pb2.DetokenizeResponse:
        async with answering_errors(context):
            check_model_name(request.model, self._info)
            text, raw = await self._tokens.decode(
                request.token_ids, skip_special_tokens=request.skip_special_tokens
            )
            return model_pb2.DetokenizeResponse(text=text, raw_bytes=raw)
        raise AssertionError("abort raises")
