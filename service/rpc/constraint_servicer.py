"""ConstraintService: convert, ask, answer."""

from __future__ import annotations

from typing_extensions import override

from service.engine.types import ModelInfo
from service.errors import InvalidRequest
from service.rpc.answering import Context, answering_errors
from service.rpc.constraints import Constraints
from service.rpc.convert import constraint as convert
from service.rpc.convert.request import check_model_name, read_constraint
from service.rpc.draft import ConstraintId
from service.rpc.pb.v1 import constraint_pb2, constraint_pb2_grpc


class ConstraintServicer(constraint_pb2_grpc.ConstraintServiceServicer):
    """CompileConstraint, CheckText, GetConstraint and DeleteConstraint."""

    def __init__(self, constraints: Constraints, model: ModelInfo) -> None:
        self._constraints = constraints
        self._model = model

    @override
    async def CompileConstraint(
        self, request: constraint_pb2.CompileConstraintRequest, context: Context
    ) -> constraint_pb2.CompileConstraintResponse:
        async with answering_errors(context):
            check_model_name(request.model, self._model)
            asked = read_constraint(request.constraint)
            with self._constraints.places:
                described = await self._constraints.describe(asked, pin=request.pin)
            return constraint_pb2.CompileConstraintResponse(constraint=convert.compiled(described))
        raise AssertionError("abort raises")

    @override
    async def CheckText(
        self, request: constraint_pb2.CheckTextRequest, context: Context
    ) -> constraint_pb2.CheckTextResponse:
        async with answering_errors(context):
            check_model_name(request.model, self._model)
            asked = read_constraint(request.constraint)
            with self._constraints.places:
                return convert.check(await self._constraints.check(asked, request.text))
        raise AssertionError("abort raises")

    @override
    async def GetConstraint(
        self, request: constraint_pb2.GetConstraintRequest, context: Context
    ) -> constraint_pb2.GetConstraintResponse:
        async with answering_errors(context):
            asked = _id(request.constraint_id)
            with self._constraints.places:
                described = await self._constraints.describe(asked, pin=False)
            return constraint_pb2.GetConstraintResponse(constraint=convert.compiled(described))
        raise AssertionError("abort raises")

    @override
    async def DeleteConstraint(
        self, request: constraint_pb2.DeleteConstraintRequest, context: Context
    ) -> constraint_pb2.DeleteConstraintResponse:
        async with answering_errors(context):
            self._constraints.forget(_id(request.constraint_id))
            return constraint_pb2.DeleteConstraintResponse()
        raise AssertionError("abort raises")


def _id(text: str) -> ConstraintId:
    if not text:
        raise InvalidRequest("constraint_id", "empty")
    return ConstraintId(text)
